//! The report of the running machine against the crate `sysinfo`, which reads the same host its own way.
//!
//! Nothing here needs root or certain hardware: what a container or a virtual machine hides is hidden
//! from both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use sysinfo::{Disks, Networks, System};

use crate::util::json;

fn report() -> Value {
    json("inspect --format json")
}

/// What `sysinfo` gives, if it gives anything.
fn text<E>(found: Result<String, E>) -> Value {
    found.ok().filter(|text| !text.is_empty()).map_or(Value::Null, Value::String)
}

#[test]
fn cpus_memory_and_system_are_those_that_sysinfo_finds() {
    let (report, system) = (report(), System::new_all().unwrap());
    let cpus = system.cpus();
    assert!(!cpus.is_empty());
    assert_eq!(report["cpu"]["n_logical_cpus_online"], cpus.len());
    assert_eq!(report["cpu"]["architecture"], System::cpu_arch());
    // Elsewhere sysinfo makes the name out of numbers.
    if std::env::consts::ARCH == "x86_64" {
        assert_eq!(report["cpu"]["model_name"], cpus[0].brand());
        assert_eq!(report["cpu"]["vendor"], cpus[0].vendor_id());
    }
    assert_eq!(report["memory"]["usable_bytes"], system.total_memory());
    let os = &report["os"];
    assert_eq!(os["kernel"], text(System::kernel_version()));
    assert_eq!(os["hostname"], text(System::host_name()));
    assert_eq!(os["distribution_version"], text(System::os_version()));
    if let Ok(name) = System::name() {
        assert_eq!(os["distribution_id"], System::distribution_id());
        let distribution = os["distribution"].as_str().unwrap_or_default();
        let first = name.split(' ').next().unwrap_or_default();
        assert!(distribution.starts_with(first), "{distribution:?} is not {name:?}");
    }
}

#[test]
fn the_section_live_is_of_this_moment() {
    let (report, system) = (report(), System::new_all().unwrap());
    let live = &report["live"];
    let uptime_s = System::uptime().unwrap();
    assert!(uptime_s.abs_diff(live["uptime_s"].as_u64().unwrap()) < 300, "{live}");
    let available_bytes = live["available_memory_bytes"].as_u64().unwrap();
    assert!((1..=system.total_memory()).contains(&available_bytes), "{live}");
    assert!(live["load"]["one_minute"].as_f64().unwrap() >= 0.0, "{live}");
    let peak_bytes = live["agent_peak_memory_bytes"].as_u64().unwrap();
    assert!((1 << 20..system.total_memory()).contains(&peak_bytes), "{live}");
    assert!(live["agent_cpu_time_ms"].is_u64(), "{live}");
}

/// Where each disk, partition and virtual device is mounted, by name.
fn mounted_at(report: &Value) -> BTreeMap<String, BTreeSet<String>> {
    fn walk(value: &Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
        if let Some(name) = value["name"].as_str() {
            let places = value["mounted_at"].as_array().into_iter().flatten();
            let places = places.map(|place| place.as_str().unwrap().to_owned());
            found.entry(name.to_owned()).or_default().extend(places);
        }
        for list in ["disks", "partitions", "virtual"] {
            value[list].as_array().into_iter().flatten().for_each(|value| walk(value, found));
        }
    }
    let mut found = BTreeMap::new();
    walk(&report["block"], &mut found);
    found
}

#[test]
fn every_mounted_disk_that_sysinfo_finds_is_in_the_report() {
    let mounted_at = mounted_at(&report());
    for disk in &Disks::new_with_refreshed_list().unwrap() {
        let Ok(device) = std::fs::canonicalize(disk.name()) else { continue };
        let Ok(name) = device.strip_prefix("/dev") else { continue };
        let name = name.display().to_string();
        // A container sees mounts of disks that its sysfs does not show.
        if !Path::new("/sys/class/block").join(&name).exists() {
            continue;
        }
        let places = mounted_at.get(&name).unwrap_or_else(|| panic!("{name} is not in the report"));
        let place = disk.mount_point().display().to_string();
        assert!(places.contains(&place), "{name} at {place}: {places:?}");
    }
}

#[test]
fn interfaces_and_their_macs_are_those_that_sysinfo_finds() {
    let report = report();
    let interfaces = report["network"]["interfaces"].as_array().unwrap();
    let ours: BTreeMap<&str, Option<&str>> = interfaces
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["current_mac"].as_str()))
        .collect();
    let networks = Networks::new_with_refreshed_list().unwrap();
    let is_loopback = |name: &str| {
        let kind = std::fs::read_to_string(format!("/sys/class/net/{name}/type"));
        kind.map_or(name == "lo", |kind| kind.trim() == "772")
    };
    let theirs: BTreeMap<&str, String> = networks
        .iter()
        .map(|(name, data)| (name.to_str().unwrap(), data.mac_address().to_string()))
        .filter(|(name, _)| !is_loopback(name))
        .collect();
    let names: Vec<&str> = ours.keys().copied().collect();
    assert_eq!(names, theirs.keys().copied().collect::<Vec<_>>());
    for (name, mac) in theirs {
        // Of InfiniBand it knows six of twenty bytes; of tunnels none.
        if let Some(ours) = ours[name].filter(|mac| mac.len() == 17) {
            assert_eq!(ours, mac, "{name}");
        }
    }
}
