//! assisted-service, the back end of `OpenShift`'s Assisted Installer, in place of a VIM.
//!
//! The agent registers the host, asks for steps, and answers each. The step `install` runs the same job as an
//! instruction of a VIM. It never gives up on the service: assisted-installer-agent freezes when the service refuses a
//! host, this agent asks again, slowly, and names the reason on the console.
//!
//! Written from the published API (`swagger.yaml` of openshift/assisted-service) and the behaviour of
//! assisted-installer-agent and assisted-installer; it has not yet met a real service.

mod addresses;
mod api;
mod arp;
mod connectivity;
mod disk_speed;
mod domains;
mod free_addresses;
mod host_id;
mod images;
mod install;
mod installer_args;
mod installing;
mod logs;
mod ntp;
mod ping;
mod progress;
mod session;
mod step;
mod tasks;
mod words;

pub use words::words;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::Value;
use tracing::error;

use self::install::Finished;
use crate::act::DiskState;
use crate::api::JobResult;
use crate::clock::{Clock, RealClock};
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::job::{Collected, Ended, JobSettings};
use crate::report::Report;
use crate::signals::Stop;

/// Settings of this back end.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The id of the infra-env, to which the host registers.
    pub infra_env_id: String,
    /// Directories with units of systemd.
    pub unit_dirs: Vec<PathBuf>,
}

impl Settings {
    /// The settings of a live image.
    #[must_use]
    pub fn new(infra_env_id: impl Into<String>) -> Self {
        let dirs = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
        Self { infra_env_id: infra_env_id.into(), unit_dirs: dirs.map(PathBuf::from).to_vec() }
    }

    /// True if Ironic's agent runs on this host too (the converged flow). Then Ironic controls the power of the host,
    /// and it must not be rebooted here.
    fn is_converged(&self) -> bool {
        self.unit_dirs.iter().any(|dir| dir.join("ironic-agent.service").exists())
    }
}

/// The hardware, as the job and the service need it.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// The data for the job.
    pub collected: Collected,
    /// The id of the host.
    pub host_id: String,
    /// The inventory in the service's form.
    pub inventory: Value,
}

impl Surveyed {
    /// Collects the data that the service needs from a report.
    #[must_use]
    pub fn new(report: &Report, collected: Collected) -> Self {
        let host_id = host_id::host_id(&report.identity, &report.node_id);
        let mut inventory = crate::export::assisted::inventory(&report.inventory);
        name_host(&mut inventory);
        Self { collected, host_id, inventory }
    }
}

/// Gives a host without a name of its own the name that assisted-installer-agent gives it: the MAC of its first port that
/// has an address. The service refuses a host called `localhost`, and two hosts with one name.
fn name_host(inventory: &mut Value) {
    let name = inventory.get("hostname").and_then(Value::as_str).unwrap_or_default();
    if !name.is_empty() && !name.starts_with("localhost") {
        return;
    }
    let ports = inventory.get("interfaces").and_then(Value::as_array);
    let has_address = |port: &&Value| {
        let lists = ["ipv4_addresses", "ipv6_addresses"].map(|key| port.get(key)?.as_array());
        lists.into_iter().flatten().any(|list| !list.is_empty())
    };
    let port = ports.into_iter().flatten().find(has_address);
    let mac = port.and_then(|port| port.get("mac_address")?.as_str());
    if let Some(name) = mac.map(|mac| mac.replace(':', "-"))
        && let Some(inventory) = inventory.as_object_mut()
    {
        inventory.insert("hostname".to_owned(), name.into());
    }
}

/// Serves as the host's agent until the host is installed or `stop` is set. `survey` reads the hardware.
pub fn run(
    settings: &Settings,
    job: &JobSettings,
    survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
    clock: Arc<dyn Clock>,
    stop: Stop,
) -> Ended {
    crate::clean::keep_recent_log();
    let client = Client::new(&job.vim, Arc::clone(&clock), stop.clone());
    let started = client.and_then(|client| {
        let surveyed = survey().context("reading the hardware")?;
        Ok((client, surveyed))
    });
    match started {
        Ok((client, surveyed)) => {
            session::Session::new(settings, job, Arc::new(client), surveyed, clock, stop)
                .run(survey)
        }
        Err(error) => {
            error!("CONFIG: {error:#}; nothing was installed");
            Ended { exit_status: ExitStatus::Usage, result: None }
        }
    }
}

/// Reports that a crash of the process ended an install. The result names the node by the id of the host.
///
/// A disk that is installed and proved is not wasted because of a crash after that: the stage is the one that was
/// missing, and the host reboots. The exit status is then returned.
pub fn report_crash(
    settings: &Settings,
    job: &JobSettings,
    result: &JobResult,
    stop: &Stop,
) -> Option<ExitStatus> {
    let is_installed = result.disk_state == DiskState::Installed;
    let exit_status = if is_installed { ExitStatus::Done } else { ExitStatus::Bug };
    let ended = Ended { exit_status, result: Some(Box::new(result.clone())) };
    let (stage, info) = match Finished::of(&ended).failure {
        Some(failure) => (progress::FAILED, failure),
        None => (progress::REBOOTING, String::new()),
    };
    let client = Client::new(&job.vim, Arc::new(RealClock), stop.clone());
    let outcome = client.map_err(|error| format!("{error:#}")).and_then(|client| {
        // The service would put a host into an error whose disk it does not know to be installed.
        let longest = client.time_left().map(|left| left.max(job.failure_limit));
        let limit = if is_installed { longest } else { Some(job.failure_limit) };
        let api = api::Api {
            client: Arc::new(client),
            infra_env_id: settings.infra_env_id.clone(),
            host_id: result.node_id.clone(),
        };
        api.insist(&progress::Report { stage, info }, limit).map_err(|gave_up| gave_up.to_string())
    });
    match outcome {
        Ok(()) if is_installed && settings.is_converged() => Some(ExitStatus::Staying),
        Ok(()) if is_installed => Some(ExitStatus::Done),
        Ok(()) => None,
        Err(error) => {
            error!("the crash could not be reported: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn host_without_a_name_is_named_after_its_first_port_with_an_address() {
        let named = |hostname: &str| {
            let mut inventory = json!({"hostname": hostname, "interfaces": [
                {"mac_address": "02:00:00:00:00:01", "ipv4_addresses": []},
                {"mac_address": "02:00:00:00:00:02", "ipv6_addresses": ["2001:db8::2/64"]},
            ]});
            name_host(&mut inventory);
            inventory["hostname"].clone()
        };
        assert_eq!(named("localhost.localdomain"), "02-00-00-00-00-02");
        assert_eq!(named(""), "02-00-00-00-00-02");
        assert_eq!(named("worker-1"), "worker-1");
    }
}
