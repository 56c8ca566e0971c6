//! The bootstrap host: it runs the temporary control plane of its cluster in the live system until the other masters have
//! taken over, and is then one of them.
//!
//! Conditions, order and stages are those of assisted-installer (`src/installer/installer.go`), whose waits have no limit;
//! the limit here is that of a stage of the service (assisted-service, `internal/host/config.go`). With a single node the
//! control plane moves to the disk instead: it leaves a config that contains all of it.

use std::time::Duration;

use serde_json::Value;
use tracing::info;

use super::api::Api;
use super::control_plane::ControlPlane;
use super::{install, progress};
use crate::act::install::Watch;
use crate::act::{Code, Failure, Site, Stage, State, bootstrap};
use crate::http::client::MAX_IGNITION_BYTES;
use crate::{bounded, strict_json};

/// The masters that must be ready before the temporary control plane may end.
const N_MASTERS: usize = 2;
/// Interval between two checks.
const POLL: Duration = Duration::from_secs(5);
/// Interval between two lines of a wait.
const LINE: Duration = Duration::from_secs(30);
/// Time limit of each wait.
const LIMIT: Duration = Duration::from_hours(1);
/// Time that etcd on the other masters gets until this host leaves it; assisted-installer delays its reboot as long.
const PAUSE: Duration = Duration::from_mins(1);
/// The config that the control plane of a single node leaves.
const SINGLE: &str = "opt/openshift/master.ign";

/// The bootstrap of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Bootstrap {
    pub(super) api: Api,
    /// Its system ends every wait when the install is stopped.
    pub(super) site: Site,
    pub(super) cluster_id: String,
    /// True if the cluster has no other node.
    pub(super) is_single: bool,
}

impl Bootstrap {
    /// Starts the temporary control plane. Returns the config that is to be installed.
    ///
    /// # Errors
    /// The config of the bootstrap cannot be fetched or applied, or the control plane of a single node does not come up.
    pub(super) fn begin(&self, watch: &dyn Watch) -> Result<String, Failure> {
        let address = self.api.bootstrap_address(&self.cluster_id);
        let config = self.api.client.fetch_ignition(&address, ignition::check::MAX_MINOR).map_err(
            |message| {
                let message = format!("fetching the bootstrap config: {message}");
                Failure::new(Code::IgnitionFetch, message)
                    .advise("check that the service has made the files of the cluster")
            },
        )?;
        bootstrap::begin(&self.site, &config, self.is_single)?;
        if !self.is_single {
            return install::ignition(&self.api);
        }
        self.wait_for_bootkube(watch)?;
        self.single_node_config()
    }

    /// Waits until the other masters have taken over the control plane.
    ///
    /// # Errors
    /// They have not within the limit, or the install is stopped.
    pub(super) fn follow(&self, watch: &dyn Watch) -> Result<(), Failure> {
        let control_plane = ControlPlane::open(&self.site)
            .map_err(|why| bootstrap::failed(format!("connecting to the control plane: {why}")))?;
        self.wait(watch, progress::CONTROL_PLANE, || match control_plane.ready_masters()? {
            ready if ready.len() >= N_MASTERS => Ok(()),
            ready if ready.is_empty() => Err(format!("0 of {N_MASTERS} masters are ready")),
            ready => {
                let n_ready = ready.len();
                Err(format!("{n_ready} of {N_MASTERS} masters are ready: {}", ready.join(", ")))
            }
        })?;
        self.wait_for_bootkube(watch)?;
        self.wait(watch, progress::BOOTKUBE, || {
            match bootstrap::state_of(&self.site.system, "progress.service")?.as_str() {
                "inactive" => Ok(()),
                state => Err(format!("waiting for etcd; progress.service is {state}")),
            }
        })?;
        info!("the other masters have taken over the control plane");
        self.site.system.clock().sleep(PAUSE, self.site.system.stop());
        Ok(())
    }

    fn wait_for_bootkube(&self, watch: &dyn Watch) -> Result<(), Failure> {
        let system = &self.site.system;
        self.wait(watch, progress::BOOTKUBE, || {
            if bootstrap::is_done(system) {
                return Ok(());
            }
            Err(format!("bootkube.service is {}", bootstrap::state_of(system, "bootkube.service")?))
        })
    }

    /// Waits until `check` succeeds, and reports the stage, and what is missing whenever that changes.
    fn wait(
        &self,
        watch: &dyn Watch,
        stage: &str,
        mut check: impl FnMut() -> Result<(), String>,
    ) -> Result<(), Failure> {
        let (clock, stop) = (self.site.system.clock(), self.site.system.stop());
        let report = |text: &str| watch.stage(Stage::Wait, State::Progress, None, Some(text));
        let started = clock.now();
        let (mut line_at, mut reported) = (started, stage.to_owned());
        report(stage);
        info!("{stage}");
        while let Err(missing) = check() {
            let text = format!("{stage}: {missing}");
            let now = clock.now();
            let spent = now.saturating_duration_since(started);
            if stop.is_stopped() {
                let what = format!("the bootstrap of the cluster was stopped; {text}");
                return Err(Failure::new(Code::Interrupted, what)
                    .advise("boot the live image again, and reset the cluster in the service"));
            }
            if spent >= LIMIT {
                let minutes = LIMIT.as_secs() / 60;
                return Err(bootstrap::failed(format!("{text}, after {minutes} min")));
            }
            if now.saturating_duration_since(line_at) >= LINE {
                line_at = now;
                info!(waited_s = spent.as_secs(), "{text}");
                if text != reported {
                    report(&text);
                    reported = text;
                }
            }
            clock.sleep(POLL, stop);
        }
        Ok(())
    }

    /// The config that the control plane left, with what the service has for this host. The latter refers to a server
    /// that a single node does not have.
    fn single_node_config(&self) -> Result<String, Failure> {
        let path = self.site.system.root().join(SINGLE);
        let invalid = |what: String| Failure::new(Code::IgnitionInvalid, what);
        let bytes = bounded::read_file(&path, MAX_IGNITION_BYTES)
            .map_err(|error| bootstrap::failed(format!("{error:#}")))?;
        let parsed = |name: &str, bytes: &[u8]| {
            strict_json::parse(bytes).map_err(|why| invalid(format!("{name} {why}")))
        };
        let single = parsed(&format!("/{SINGLE}"), &bytes)?;
        let mut own = parsed("the Ignition config", install::ignition(&self.api)?.as_bytes())?;
        if let Some(own) = own.get_mut("ignition").and_then(Value::as_object_mut) {
            own.remove("config");
        }
        Ok(ignition::merge::merge(&single, &own).to_string())
    }
}
