//! The step `install`: its request becomes an order, which the same job carries out.

use std::sync::Arc;

use ignition::hostname::add_hostname;
use probes::block::Disk;
use serde_json::Value;
use tracing::{info, warn};

use super::api::Api;
use super::step::Step;
use super::{installer_args, progress::Progress};
use crate::act::Failure;
use crate::act::{Code, DiskChoice, DiskState, Expect, IgnitionSource, ImageSource, Order};
use crate::api::Outcome;
use crate::clean;
use crate::clock::Clock;
use crate::engines::vim::events::Observer;
use crate::exit_status::ExitStatus;
use crate::job::{self, After, Collected, Ended, JobSettings, Offline};
use crate::signals::Stop;
use crate::strict_json;

/// The roles that a host can be installed with. A bootstrap host also has to run the temporary control plane of its
/// cluster in containers, which this program does not.
const ROLES: [&str; 4] = ["master", "worker", "arbiter", "auto-assign"];
/// The exit code of a step for which the live medium is unreadable (assisted-installer-agent, `MediaDisconnected`).
const MEDIUM_LOST: i64 = 256;
/// The exit code of an install that failed.
const FAILED: i64 = 1;

/// The service's request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) cluster_id: String,
    pub(super) order: Order,
    /// Another directory with the network profiles to copy.
    pub(super) network_dir: Option<String>,
    /// Notes on the parts of the request that are not done.
    pub(super) notes: Vec<String>,
    id: String,
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
            return Err(format!(
                "{key} is {}, but that of this host is {own}",
                clean::quoted(text(key), 64)
            ));
        }
    }
    let role = text("role");
    if role == "bootstrap" {
        return Err("the role is bootstrap, which runs the cluster's temporary control plane in containers; \
                    this agent runs none: let another host of the cluster be the bootstrap host"
            .into());
    }
    if !ROLES.contains(&role) {
        return Err(format!(
            "role is {role}, expected one of {}",
            ROLES.join(", "),
            role = clean::quoted(role, 64)
        ));
    }
    let cluster_id = text("cluster_id");
    if formats::guid::parse(cluster_id).is_none() {
        return Err(format!(
            "cluster_id is {cluster_id}, expected a UUID",
            cluster_id = clean::quoted(cluster_id, 64)
        ));
    }
    let mut order = Order {
        disk: Some(DiskChoice {
            device: Some(text("boot_device").into()),
            ..DiskChoice::default()
        }),
        ..Order::default()
    };
    let extra = installer_args::apply(text("installer_args"), &mut order)?;
    if let Some(image) = &mut order.image {
        *image = ImageSource { insecure: is_insecure_allowed, ..std::mem::take(image) };
    }
    Ok(Request {
        cluster_id: cluster_id.to_owned(),
        order,
        network_dir: extra.network_dir,
        notes: notes(&request),
        id: if step.id.is_empty() { "install".into() } else { clean::text(&step.id, 128) },
    })
}

/// Lists the parts of the request that this agent does not carry out.
fn notes(request: &Value) -> Vec<String> {
    let disks = request.get("disks_to_format").and_then(Value::as_array);
    let disks: Vec<&str> = disks.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut notes = Vec::new();
    if !disks.is_empty() {
        let disks = clean::text(&disks.join(", "), 500);
        notes.push(format!(
            "disks_to_format is ignored, no disk but the chosen one is ever written: {disks}"
        ));
    }
    notes
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
        let what = format!(
            "boot_device is {device}, expected a disk of the inventory",
            device = clean::quoted(device, 200)
        );
        return Err(Failure::new(Code::DiskNone, what)
            .advise("choose another disk in the service, or insert the missing one"));
    };
    if device == &disk.device
        && let Some(link) = disk.by_id.first()
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

/// The outcome of an install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) exit_status: ExitStatus,
    /// Code and message of the failure; `None` if the disk is installed and proved.
    pub(super) failure: Option<String>,
    /// The exit code of the step.
    pub(super) exit_code: i64,
}

impl Finished {
    pub(super) fn of(ended: &Ended) -> Self {
        let result = ended.result.as_deref();
        let is_installed = result.is_some_and(|result| result.outcome == Outcome::Installed);
        if is_installed && ended.exit_status == ExitStatus::Done {
            return Self { exit_status: ExitStatus::Done, failure: None, exit_code: 0 };
        }
        let code = result.and_then(|result| result.code.clone()).unwrap_or_default();
        let disk = match result.map(|result| result.disk_state) {
            Some(DiskState::HalfWritten) => "; the disk may be half written",
            Some(DiskState::Erased) => "; the disk was written and its partition table erased",
            Some(DiskState::Installed | DiskState::Written) => {
                "; the disk was written, but it is not proved"
            }
            Some(DiskState::Untouched) => "; no disk was touched",
            None => "",
        };
        let message = result.map_or("the job ended without a result", |r| r.message.as_str());
        let advice = result.and_then(|result| result.advice.as_deref());
        let advice = advice.map(|advice| format!("; what to do: {advice}")).unwrap_or_default();
        let is_medium = code == Code::MediumLost.to_string();
        Self {
            exit_status: ended.exit_status,
            failure: Some(format!("{code}: {message}{disk}{advice}")),
            exit_code: if is_medium { MEDIUM_LOST } else { FAILED },
        }
    }

    /// A request that is not carried out.
    pub(super) fn refused_request(error: &str) -> Self {
        Self::refused(&Failure::new(Code::InstructionInvalid, error.to_owned()))
    }

    /// A bug ended the install.
    pub(super) fn bug(what: &str) -> Self {
        let failure = format!(
            "{}: a bug ended the install: {what}; the disk may be half written",
            Code::AgentBug
        );
        Self { exit_status: ExitStatus::HalfWritten, failure: Some(failure), exit_code: FAILED }
    }

    /// A failure before the job began.
    pub(super) fn refused(failure: &Failure) -> Self {
        let failure = Failure {
            message: failure.message.clone().and("; no disk was touched"),
            ..failure.clone()
        };
        Self {
            exit_status: ExitStatus::Untouched,
            failure: Some(failure.in_words(super::words)),
            exit_code: FAILED,
        }
    }
}

/// Everything that an install needs on its own thread.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) api: Api,
    pub(super) request: Request,
    pub(super) settings: JobSettings,
    /// The hardware as the service knows it: its choice of the disk refers to that.
    pub(super) collected: Collected,
    pub(super) progress: Arc<Progress>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: Stop,
}

impl Work {
    /// Fetches the Ignition config and runs the job.
    pub(super) fn run(self) -> Finished {
        let ignition = match self.ignition() {
            Ok(ignition) => ignition,
            Err(failure) => return Finished::refused(&failure),
        };
        let Self { request, mut settings, collected, progress, .. } = self;
        let inline = IgnitionSource { inline: Some(ignition), ..IgnitionSource::default() };
        let order = Order { ignition: inline, ..request.order };
        settings.offline = Some(Offline {
            order,
            request_id: request.id,
            reason: "assisted-service asks for it",
            result: settings.site.run_dir.join("result.json"),
            after: After::Reboot,
        });
        settings.words = super::words;
        if let Some(dir) = request.network_dir {
            settings.site.network_dir = dir.into();
        }
        // Images come from anywhere; the token is for the service only.
        settings.vim.url = None;
        settings.vim.token_file = None;
        settings.observer = Some(Observer(Arc::new(move |stage, how, percent| {
            progress.observe(stage, how, percent);
        })));
        let mut collect = || Ok(collected.clone());
        Finished::of(&job::run_with(&settings, &mut collect, self.clock, self.stop))
    }

    /// The Ignition config of the host, with its overrides and its name.
    fn ignition(&self) -> Result<String, Failure> {
        let bytes = self.api.client.fetch_ignition(&self.api.ignition_address());
        let bytes = bytes.map_err(|message| {
            let message = format!("fetching the Ignition config: {message}");
            Failure::new(Code::IgnitionFetch, message)
                .advise("check that the service has made the host's config")
        })?;
        let invalid = |what: &str| Failure::new(Code::IgnitionInvalid, what.to_owned());
        let text = String::from_utf8(bytes)
            .map_err(|_| invalid("the Ignition config contains bytes that are not UTF-8"))?;
        // Not every agent may read its host. The service itself has merged the overrides into what it serves.
        let host = self.api.host().unwrap_or_else(|failed| {
            info!("reading what the service knows of this host: {}", failed.message);
            Value::Null
        });
        is_own(&host, &self.api.host_id)
            .map_err(|message| Failure::new(Code::IgnitionFetch, message))?;
        with_overrides(&text, &host).map_err(|what| invalid(&what))
    }
}

/// Checks that an answer is about this host: the overrides of another one are not merged.
fn is_own(host: &Value, host_id: &str) -> Result<(), String> {
    let other =
        host.get("id").and_then(Value::as_str).filter(|id| !id.eq_ignore_ascii_case(host_id));
    other.map_or(Ok(()), |other| {
        Err(format!(
            "the service was asked for host {host_id} and responded with {}",
            clean::quoted(other, 64)
        ))
    })
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
        add_hostname(&mut merged, name).map_err(|expected| {
            format!("the host's name is {}, expected {expected}", clean::quoted(name, 300))
        })?;
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

    #[test]
    fn disks_to_format_are_named_as_left_alone() {
        let notes = notes(&json!({"disks_to_format": ["/dev/disk/by-id/a"]}));
        assert!(notes.len() == 1 && notes[0].contains("/dev/disk/by-id/a"), "{notes:?}");
        assert!(super::notes(&json!({"disks_to_format": null})).is_empty());
    }
}
