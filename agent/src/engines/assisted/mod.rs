//! assisted-service, the back end of `OpenShift`'s Assisted Installer, in place of a VIM.
//!
//! The agent registers the host, asks for steps, and answers each; the step `install` is an order. It never gives up on the service: assisted-installer-agent freezes when the service refuses a
//! host, this agent asks again, slowly, and names the reason on the console.
//!
//! Written from the published API (`swagger.yaml` of openshift/assisted-service) and the behaviour of
//! assisted-installer-agent and assisted-installer, and tried with the real service.

mod addresses;
mod api;
mod arp;
mod bootstrap;
mod connectivity;
mod control_plane;
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
mod servers;
mod session;
mod step;
mod tasks;
mod vips;
mod words;

pub use words::words;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use serde_json::Value;
use tracing::error;

use self::api::Api;
use self::session::Session;
use crate::act::say::Words;
use crate::act::{DiskState, Outcome, Stage};
use crate::exit_status::ExitStatus;
use crate::http::{Client, ServerSettings};
use crate::job::{AfterCrash, Collected, Crash, Engine, Event, Next, Node, Survey};
use crate::report::Report;

/// Settings of this back end.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The id of the infra-env, to which the host registers.
    pub infra_env_id: String,
    /// Directories with units of systemd.
    pub unit_dirs: Vec<PathBuf>,
    /// The folder below which the pull secret and the settings of registries are.
    pub root: PathBuf,
}

impl Settings {
    /// The settings of a live image.
    pub fn new(infra_env_id: impl Into<String>) -> Self {
        let dirs = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
        let unit_dirs = dirs.map(PathBuf::from).to_vec();
        Self { infra_env_id: infra_env_id.into(), unit_dirs, root: "/".into() }
    }

    /// True if Ironic's agent runs on this host too (the converged flow). Then Ironic controls the power of the host,
    /// and it must not be rebooted here.
    fn is_converged(&self) -> bool {
        self.unit_dirs.iter().any(|dir| dir.join("ironic-agent.service").exists())
    }
}

/// The hardware, as the job and the service need it.
#[derive(Debug, Clone, Default)]
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
    pub fn new(report: &Report, collected: Collected) -> Self {
        let mac = host_id::lowest_mac(&report.inventory);
        let host_id = host_id::host_id(&report.identity, &report.node_id, mac.as_deref());
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

/// The engine of assisted-service: serves as the host's agent until the host is installed or a signal arrives.
#[derive(Debug)]
pub struct Assisted<'a> {
    settings: Settings,
    server: ServerSettings,
    node: Node,
    survey: Survey<'a, anyhow::Result<Surveyed>>,
    session: Session,
    is_surveyed: bool,
}

impl<'a> Assisted<'a> {
    /// Makes the engine without sending anything. `server` are the connection settings of the service; `survey` reads the
    /// hardware.
    ///
    /// # Errors
    /// It is a dry run, a setting of the server is wrong, or one of its files cannot be read.
    pub fn new(
        settings: Settings,
        server: ServerSettings,
        node: Node,
        survey: Survey<'a, anyhow::Result<Surveyed>>,
    ) -> anyhow::Result<Self> {
        // The service would count a host as installed whose disk was only checked.
        ensure!(
            !node.settings.is_dry_run,
            "dry-run needs --backend vim: for assisted-service an install is either done or failed"
        );
        let client = Client::new(&server, Arc::clone(&node.clock), node.stop.clone())?;
        let api = Api {
            client: Arc::new(client),
            infra_env_id: settings.infra_env_id.clone(),
            host_id: String::new(),
            version: concat!("run-coreos-installer/", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let session = Session::new(api, Surveyed::default(), node.clock.now());
        Ok(Self { settings, server, node, survey, session, is_surveyed: false })
    }
}

impl Engine for Assisted<'_> {
    fn next(&mut self) -> Next {
        if !std::mem::replace(&mut self.is_surveyed, true)
            && let Err(error) = self.survey_first()
        {
            error!("CONFIG: {error:#}; nothing was installed");
            return Next::End(ExitStatus::Usage);
        }
        self.serve()
    }

    fn progress(&mut self, events: Vec<Event>) {
        if let Some(install) = &mut self.session.install {
            for event in events {
                install.progress.observe(&event);
                if let Some(text) = event.message.filter(|_| event.stage == Stage::Wait) {
                    self.node.console.works_on(&text);
                }
            }
            if self.node.stop.is_stopped() {
                install.interrupt.stop();
                return;
            }
        }
        // While an install runs, neither a registration nor the end follows.
        self.round();
    }

    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus> {
        self.conclude(&outcome)
    }

    /// A disk that is installed and proved is not wasted because of a crash after that: the stage is the one that was
    /// missing, and the host reboots.
    fn crashed(&mut self, crash: &Crash) -> AfterCrash {
        let node_id = &crash.found.node_id;
        let Some(failure) = crash.outcome.failure.as_ref().filter(|_| !node_id.is_empty()) else {
            return AfterCrash::End(None);
        };
        self.session.api.host_id.clone_from(node_id);
        let api = &self.session.api;
        let is_cut = crash.found.has_more;
        let is_installed = crash.outcome.state == DiskState::Installed && !is_cut;
        let limit = self.node.settings.failure_limit;
        // The service would put a host into an error whose disk it does not know to be installed.
        let (report, limit) = if is_installed {
            let report = progress::Report { stage: progress::REBOOTING, info: String::new() };
            (report, api.client.time_left().map(|left| left.max(limit)))
        } else {
            let advice = "boot the live image again, and reset the cluster in the service";
            let cut = failure.clone().advise(advice);
            let info = install::describe(&crash.outcome, if is_cut { &cut } else { failure });
            (progress::Report { stage: progress::FAILED, info }, Some(limit))
        };
        AfterCrash::End(match api.insist(&report, limit) {
            Ok(()) if is_installed && self.settings.is_converged() => Some(ExitStatus::Staying),
            Ok(()) if is_installed => Some(ExitStatus::Done),
            Ok(()) => None,
            Err(gave_up) => {
                error!("the crash could not be reported: {gave_up}");
                None
            }
        })
    }

    fn term(&self) -> Words {
        words
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node
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
