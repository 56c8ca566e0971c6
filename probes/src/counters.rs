//! Counters that mean something only if they rise: a cable that was pulled out last month, or a hot day last summer, has
//! left its mark too. Two readings of a running machine show what fails now.
//!
//! Sources: `/sys/class/net/*/statistics` and `carrier_down_count` (`Documentation/ABI/testing/sysfs-class-net-statistics`,
//! `sysfs-class-net`), `/sys/class/infiniband/*/ports/*/counters` (`Documentation/ABI/stable/sysfs-class-infiniband`),
//! `/sys/class/fc_host/*/statistics` (`drivers/scsi/scsi_transport_fc.c`), `/sys/bus/pci/devices/*/aer_dev_correctable`
//! (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer`), `/sys/devices/system/cpu/cpu*/thermal_throttle`
//! (`drivers/thermal/intel/therm_throt.c`).

use std::sync::Arc;

use crate::collect::Inventory;
use crate::cpuset::CpuSet;
use crate::findings::{Finding, physical_ports, row};
use crate::machine::{Machine, Source};
use crate::memory::parse_size;
use crate::parts::{self, Detail, PartId, PartKind};

/// Frames that arrived damaged, and links that went down. Drops and overruns are not counted: a busy host has them.
const NET: [&str; 4] = [
    "statistics/rx_crc_errors",
    "statistics/rx_frame_errors",
    "statistics/tx_carrier_errors",
    "carrier_down_count",
];
const INFINIBAND: [&str; 4] =
    ["symbol_error", "link_error_recovery", "link_downed", "local_link_integrity_errors"];
const FIBRE_CHANNEL: [&str; 5] = [
    "invalid_crc_count",
    "invalid_tx_word_count",
    "loss_of_sync_count",
    "loss_of_signal_count",
    "link_failure_count",
];
const CORRECTED: &str = "aer_dev_correctable";
const CORE_HEAT: &str = "core_throttle_total_time_ms";
const PACKAGE_HEAT: &str = "package_throttle_total_time_ms";

/// The most entries in the evidence of one part: a package has many cores.
const LIMIT_RISES: usize = 5;

/// The counters of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// The part.
    part: PartId,
    /// The code of the finding about it.
    code: &'static str,
    /// Each counter that the kernel has, by its name.
    values: Vec<(String, u64)>,
    /// The rise in a second below which nothing is wrong; if it is 0, any rise is a finding.
    least_rate: u64,
}

/// Reads the counters of the parts in `inventory`.
pub fn read(source: &Arc<Source>, inventory: &Inventory) -> Vec<Counters> {
    let machine = Machine::new(Arc::clone(source), "counters");
    let mut all = Vec::new();
    for port in physical_ports(inventory) {
        all.push(link(&machine, &format!("sys/class/net/{}", port.name), parts::port(port), &NET));
    }
    for device in inventory.network.iter().flat_map(|network| &network.infiniband) {
        for port in &device.ports {
            let name = format!("{} port {}", device.name, port.number);
            let address = device.pci_address.clone().map(Detail::Address);
            let part = PartId::new(PartKind::Infiniband, name).with(address);
            let path =
                format!("sys/class/infiniband/{}/ports/{}/counters", device.name, port.number);
            all.push(link(&machine, &path, part, &INFINIBAND));
        }
    }
    for host in inventory.block.iter().flat_map(|block| &block.fc_hosts) {
        let name = host.port_name.clone().map(Detail::Other);
        let part = PartId::new(PartKind::FcHost, &host.name).with(name);
        let path = format!("sys/class/fc_host/{}/statistics", host.name);
        let link = link(&machine, &path, part, &FIBRE_CHANNEL);
        all.push(Counters { code: "disk.link_errors", ..link });
    }
    let devices = inventory.pci.iter().flat_map(|pci| &pci.devices);
    for device in devices.filter(|device| device.aer.is_some()) {
        let path = format!("sys/bus/pci/devices/{}", device.address);
        let errors = link(&machine, &path, parts::device(device), &[CORRECTED]);
        // A link within its specification has less than one error in a second: 10^-12 of the bits of 16 lanes at
        // 32 GT/s.
        all.push(Counters { code: "pci.aer.correctable", least_rate: 10, ..errors });
    }
    all.extend(heat(&machine, inventory));
    all
}

fn link(machine: &Machine, path: &str, part: PartId, names: &[&str]) -> Counters {
    let values = names.iter().filter_map(|file| {
        let name = file.rsplit('/').next()?;
        Some((name.to_owned(), count(&machine.text(&format!("{path}/{file}"))?)?))
    });
    Counters { part, code: "nic.link_errors", values: values.collect(), least_rate: 0 }
}

/// Times for which each package and its cores were slowed down because of heat.
fn heat(machine: &Machine, inventory: &Inventory) -> Vec<Counters> {
    let mut all = Vec::new();
    for package in inventory.cpu.iter().flat_map(|cpu| &cpu.packages) {
        let first = |cpus: &String| CpuSet::parse(cpus).ok()?.first();
        let cpus: Vec<u32> =
            package.cores.iter().filter_map(|core| first(&core.logical_cpus)).collect();
        let Some(one) = cpus.first() else { continue };
        let ms = |cpu: u32, name: &str| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}");
            Some((format!("cpu{cpu}/{name}"), count(&machine.text(&path)?)?))
        };
        let mut values: Vec<_> = ms(*one, PACKAGE_HEAT).into_iter().collect();
        values.extend(cpus.iter().filter_map(|cpu| ms(*cpu, CORE_HEAT)));
        let part = parts::socket_of(inventory, &one.to_string());
        // Processors with a boost touch their limit for moments. One percent of the time is more than that.
        all.push(Counters { part, code: "cpu.throttled", values, least_rate: 10 });
    }
    all
}

/// A counter in decimal, or in hexadecimal as Fibre Channel has it; all ones mean that the driver does not count it. The
/// total of a list of counters is its last word.
fn count(text: &str) -> Option<u64> {
    let text = text.split_whitespace().last()?;
    parse_size(text).ok().filter(|value| *value != u64::MAX)
}

/// A finding for each part with a counter that is higher in `after` than in `before`, which was read `seconds` earlier.
pub fn risen(before: &[Counters], after: &[Counters], seconds: u64) -> Vec<Finding> {
    let compare = |now: &Counters| {
        let is_same = |old: &&Counters| old.code == now.code && old.part == now.part;
        let old = before.iter().find(is_same)?;
        let least = now.least_rate.saturating_mul(seconds).max(1);
        let rises = now.values.iter().filter_map(|(name, now)| {
            let (_, then) = old.values.iter().find(|(other, _)| other == name)?;
            // A driver that was loaded again counts from 0.
            let rise = now.checked_sub(*then).filter(|rise| *rise >= least)?;
            Some(format!("{name} by {rise}"))
        });
        let rises: Vec<String> = rises.take(LIMIT_RISES).collect();
        if rises.is_empty() {
            return None;
        }
        let evidence = format!("rose within {seconds} s: {}", rises.join(", "));
        Some(row(now.code)?.finding(Some(now.part.clone()), evidence))
    };
    after.iter().filter_map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_decimal_or_hexadecimal_and_all_ones_is_none() {
        assert_eq!(count("17\n"), Some(17));
        assert_eq!(count("0x1f"), Some(31));
        assert_eq!(count("RxErr 2\nBadTLP 1\nTOTAL_ERR_COR 3\n"), Some(3));
        for none in ["0xffffffffffffffff", "", "-1", "0x", "many"] {
            assert_eq!(count(none), None, "{none}");
        }
    }
}
