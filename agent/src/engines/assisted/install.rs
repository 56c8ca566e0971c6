//! The step `install`: its request becomes an order.

use ignition::hostname::add_hostname;
use probes::block::Disk;
use serde_json::Value;
use tracing::{info, warn};

use super::api::Api;
use super::step::Step;
use super::{installer_args, words};
use crate::act::choose::is_stable_path;
use crate::act::{Code, DiskChoice, DiskState, Expect, Failure, Order, Outcome};
use crate::{clean, strict_json};

/// The roles that a host can be installed with. A bootstrap host becomes a master.
const ROLES: [&str; 5] = ["bootstrap", "master", "worker", "arbiter", "auto-assign"];

/// The service's request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) cluster_id: String,
    pub(super) order: Order,
    /// True if the host first runs the temporary control plane of its cluster.
    pub(super) is_bootstrap: bool,
    /// True if the cluster has no other node.
    pub(super) is_single: bool,
    /// Another directory with the network profiles to copy.
    pub(super) network_dir: Option<String>,
    /// Names the part of the request that is not done.
    pub(super) note: Option<String>,
    /// The id of the step, as the name of the order.
    pub(super) id: String,
}

/// Reads and checks the request.
///
/// # Errors
/// A message with the fault.
pub(super) fn parse(step: &Step, api: &Api, is_insecure_allowed: bool) -> Result<Request, String> {
    let request = step.json(0)?;
    let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
    for (key, own) in [("host_id", &api.host_id), ("infra_env_id", &api.infra_env_id)] {
        if !text(key).eq_ignore_ascii_case(own) {
            let found = clean::quoted(text(key), 64);
            return Err(format!("{key} is {found}, but that of this host is {own}"));
        }
    }
    let role = text("role");
    if !ROLES.contains(&role) {
        return Err(format!("role is not one of {}", ROLES.join(", ")));
    }
    // Older services have the mode in place of the count.
    let is_single = request["control_plane_count"] == 1 || text("high_availability_mode") == "None";
    let is_bootstrap = role == "bootstrap";
    let cluster_id = text("cluster_id");
    if formats::guid::parse(cluster_id).is_none() {
        return Err(clean::unexpected("cluster_id", cluster_id, 64, "a UUID"));
    }
    let device = Some(text("boot_device").into());
    let disk = Some(DiskChoice { device, ..DiskChoice::default() });
    let mut order = Order { disk, ..Order::default() };
    let network_dir = installer_args::apply(text("installer_args"), &mut order)?;
    if let Some(image) = &mut order.image {
        image.insecure = is_insecure_allowed;
    }
    Ok(Request {
        cluster_id: cluster_id.to_owned(),
        order,
        is_bootstrap,
        is_single: is_bootstrap && is_single,
        network_dir,
        note: note(&request),
        id: if step.id.is_empty() { "install".into() } else { clean::text(&step.id, 128) },
    })
}

/// Names the part of the request that this agent does not carry out.
fn note(request: &Value) -> Option<String> {
    let disks = request.get("disks_to_format").and_then(Value::as_array);
    let disks: Vec<&str> = disks.into_iter().flatten().filter_map(Value::as_str).collect();
    let shown = clean::text(&disks.join(", "), 500);
    (!disks.is_empty()).then(|| {
        format!("disks_to_format is ignored, no disk but the chosen one is ever written: {shown}")
    })
}

/// Makes the install certain of its disk: the service chose it from an inventory, in which a name such as `/dev/sda` may
/// have meant another disk than it does now.
///
/// # Errors
/// `DISK_NONE`: the inventory has no such disk.
pub(super) fn pin(order: &mut Order, reported: &[Disk]) -> Result<(), Failure> {
    let device = order.disk.as_mut().and_then(|choice| choice.device.as_mut());
    let Some(device) = device else { return Ok(()) };
    let Some(disk) = find(reported, device) else {
        let what = clean::unexpected("boot_device", device, 200, "a disk of the inventory");
        return Err(Failure::new(Code::DiskNone, what)
            .advise("choose another disk in the service, or insert the missing one"));
    };
    if device == &disk.device
        && let Some(link) = disk.by_id.iter().chain(&disk.by_path).find(|link| is_stable_path(link))
    {
        device.clone_from(link);
    }
    order.expect = Some(Expect {
        serial: disk.serial.clone(),
        wwn: disk.wwn.clone(),
        size_bytes: disk.size_bytes.filter(|size_bytes| *size_bytes > 0),
    });
    Ok(())
}

/// The disk of the inventory that a path names.
pub(super) fn find<'d>(disks: &'d [Disk], path: &str) -> Option<&'d Disk> {
    disks.iter().find(|disk| {
        disk.device == path || disk.by_id.iter().chain(&disk.by_path).any(|link| link == path)
    })
}

/// The failure of an install for the service: code, message, state of the disk, advice.
pub(super) fn describe(outcome: &Outcome, failure: &Failure) -> String {
    let disk = match outcome.state {
        DiskState::HalfWritten => "; the disk may be half written",
        DiskState::Erased => "; the disk was written and its partition table erased",
        DiskState::Installed => "; the disk is installed",
        DiskState::Written => "; the disk was written, but it is not proved",
        DiskState::Untouched => "; no disk was touched",
    };
    let message = failure.message.clone().and(disk);
    Failure { message, ..failure.clone() }.in_words(words)
}

/// The host's Ignition config, with the host's name and overrides.
///
/// # Errors
/// It cannot be fetched, or is not this host's.
pub(super) fn ignition(api: &Api) -> Result<String, Failure> {
    let bytes = api.client.fetch_ignition(&api.ignition_address(), ignition::check::MAX_MINOR);
    let bytes = bytes.map_err(|message| {
        let message = format!("fetching the Ignition config: {message}");
        Failure::new(Code::IgnitionFetch, message)
            .advise("check that the service has made the host's config")
    })?;
    let invalid = |what: &str| Failure::new(Code::IgnitionInvalid, what.to_owned());
    let text = String::from_utf8(bytes)
        .map_err(|_| invalid("the Ignition config contains bytes that are not UTF-8"))?;
    // Not every agent may read its host. The service itself has merged the overrides into what it serves.
    let host = api.host().unwrap_or_else(|failed| {
        info!("reading what the service knows of this host: {}", failed.message);
        Value::Null
    });
    is_own(&host, &api.host_id).map_err(|message| Failure::new(Code::IgnitionFetch, message))?;
    with_overrides(&text, &host).map_err(|what| invalid(&what))
}

/// Checks that an answer is about this host: the overrides of another one are not merged.
fn is_own(host: &Value, host_id: &str) -> Result<(), String> {
    match host.get("id").and_then(Value::as_str) {
        Some(other) if !other.eq_ignore_ascii_case(host_id) => {
            let other = clean::quoted(other, 64);
            Err(format!("the service was asked for host {host_id} and responded with {other}"))
        }
        _ => Ok(()),
    }
}

/// Parses a part of the config. It is written again after the merge, which would lose a key that occurs twice.
fn strict(name: &str, text: &str) -> Result<Value, String> {
    strict_json::parse(text.as_bytes()).map_err(|why| format!("{name} {why}"))
}

/// The config with the overrides and the name that the service has for the host, unless it contains them already.
fn with_overrides(config: &str, host: &Value) -> Result<String, String> {
    // A config that is not JSON is refused by the checks of the job.
    let Ok(parsed) = serde_json::from_str::<Value>(config) else { return Ok(config.to_owned()) };
    let text = |key: &str| host.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut merged = parsed.clone();
    if let Some(overrides) = text("ignition_config_overrides") {
        let overrides = strict("the text of the host's Ignition overrides", overrides)?;
        merged = ignition::merge::merge(&merged, &overrides);
    }
    if let Some(name) = text("requested_hostname") {
        add_hostname(&mut merged, name)
            .map_err(|expected| clean::unexpected("the host's name", name, 300, expected))?;
    }
    if merged == parsed {
        return Ok(config.to_owned());
    }
    strict("the Ignition config", config)?;
    warn!(
        "the Ignition config of the service lacked the host's name or overrides; they were added"
    );
    Ok(merged.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG: &str = r#"{"ignition":{"version":"3.2.0"}}"#;

    #[test]
    fn config_that_has_name_and_overrides_already_is_not_changed() {
        let host = json!({
            "requested_hostname": "master-0",
            "ignition_config_overrides": r#"{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/x"}]}}"#,
        });
        let once = with_overrides(CONFIG, &host).unwrap();
        let parsed: Value = serde_json::from_str(&once).unwrap();
        assert_eq!(parsed["ignition"]["version"], "3.2.0");
        let files = &parsed["storage"]["files"];
        assert_eq!((&files[0]["path"], &files[1]["path"]), (&json!("/x"), &json!("/etc/hostname")));
        assert_eq!(with_overrides(&once, &host).unwrap(), once);
        assert_eq!(with_overrides(CONFIG, &Value::Null).unwrap(), CONFIG);
        assert_eq!(with_overrides("no JSON", &host).unwrap(), "no JSON");
    }

    #[test]
    fn malformed_overrides_or_name_are_refused() {
        let overrides = json!({"ignition_config_overrides": "{"});
        assert!(with_overrides(CONFIG, &overrides).is_err());
        let twice = json!({"ignition_config_overrides": r#"{"a":1,"a":2}"#});
        assert!(with_overrides(CONFIG, &twice).is_err());
        let named = json!({"requested_hostname": "n"});
        let config = r#"{"ignition":{"version":"3.2.0"},"passwd":{},"passwd":{}}"#;
        assert!(with_overrides(config, &named).unwrap_err().contains("passwd"));
        assert!(with_overrides(CONFIG, &json!({"requested_hostname": "a b"})).is_err());
    }

    #[test]
    fn answer_about_another_host_is_refused() {
        assert!(is_own(&json!({"id": "A"}), "a").is_ok() && is_own(&json!({}), "a").is_ok());
        assert!(is_own(&json!({"id": "b"}), "a").unwrap_err().contains("responded with \"b\""));
    }
}
