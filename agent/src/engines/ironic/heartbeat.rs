//! Keeps in touch with Ironic: lookup, certificate, command server, then heartbeats for as long as the agent runs.
//!
//! Ironic reads the outcome of a step only when a heartbeat arrives, so one follows as soon as a step ends, but never
//! sooner after the last one than ironic-python-agent does.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tracing::{debug, error, info, warn};

use super::api::{Api, refused};
use super::certificate::Certificate;
use super::commands::{Commands, unknown_step};
use super::journal::{Journal, Session};
use super::server;
use crate::clock::Clock;
use crate::http::client::GaveUp;
use crate::http::retry::Failed;
use crate::http::url::{Url, Zones};
use crate::job::console::Console;
use crate::signals::Stop;

/// The version of the API that has everything that a heartbeat needs.
const VERSION: &str = "1.68";
/// When the next heartbeat follows, as parts of Ironic's time limit: it may lose one of them.
const PARTS: (f64, f64) = (0.3, 0.6);
/// Time to wait for a port or an address that is not there yet.
const SETUP_RETRY: Duration = Duration::from_secs(10);
/// A wait is cut into pieces of this length, to notice a signal.
const SLICE: Duration = Duration::from_millis(100);

/// The inputs of the thread.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) api: Arc<Api>,
    pub(super) commands: Arc<Commands>,
    pub(super) macs: Vec<String>,
    /// The node, if the answer to the inspection named it.
    pub(super) node_uuid: Option<String>,
    /// The name of the node on the console if Ironic has not named it.
    pub(super) node_id: String,
    pub(super) settings: super::Settings,
    pub(super) console: Arc<Console>,
    pub(super) stop: Stop,
}

impl Contact {
    /// Runs until a signal ends the agent.
    pub(super) fn run(&self) {
        let saved = self.commands.journal().session.clone();
        if let Some(session) = &saved {
            info!("continuing as the agent of node {}", session.node_uuid);
        }
        let Some(mut session) = saved.or_else(|| self.look_up()) else { return };
        let port = self.settings.port;
        let listen = || {
            server::listen(port)
                .map_err(|why| format!("listening for Ironic's commands on port {port}: {why}"))
        };
        let Some(listener) = self.set_up(listen) else { return };
        let commands = Arc::clone(&self.commands);
        if let Err(why) = server::start(listener, &session.certificate, commands) {
            error!("{why:#}");
            return;
        }
        let mut is_accepted = true;
        while let Some(was_accepted) = self.beat(&session) {
            // A node that was powered off and on through a BMC that is not this machine's, or a test.
            if std::mem::replace(&mut is_accepted, false) || was_accepted {
                warn!("Ironic no longer accepts the token of this boot; asking for another one");
            }
            self.renew(&mut session);
        }
    }

    /// Asks once for another token. A proxy in front of Ironic may have refused the heartbeat, and then the token is still
    /// good: Ironic never gives it again, so it must not be thrown away. No time limit ends this: a step may be running.
    fn renew(&self, session: &mut Session) {
        match self.lookup_once(Some(&session.token)) {
            Ok(found) if found.token != session.token => {
                session.token = found.token;
                session.heartbeat_timeout_s = found.heartbeat_timeout.as_secs();
                if found.node_uuid != session.node_uuid {
                    warn!("this machine was node {}", session.node_uuid);
                    session.node_uuid = found.node_uuid;
                }
                self.keep(|journal| journal.begin(session.clone(), None));
            }
            Ok(_) => debug!("Ironic conceals the token; keeping the one of this boot"),
            Err(failed) => debug!("{}", failed.message),
        }
    }

    fn look_up(&self) -> Option<Session> {
        let server = self.api.address().map(Url::shown).unwrap_or_default();
        let node = self.node_uuid.as_deref().unwrap_or(&self.node_id);
        self.console.waits_for(&format!("Ironic at {server} to ask something of it"), node);
        let found = match self.lookup() {
            Ok(found) => found,
            Err(GaveUp::Stopped) => return None,
            Err(gave_up) => {
                error!("NO_REPORT: the lookup was given up: {gave_up}; nothing was installed");
                self.stop.stop();
                return None;
            }
        };
        let callback_url = self.callback_url()?;
        let certificate = self.certificate(&callback_url, found.date)?;
        let session = Session {
            node_uuid: found.node_uuid,
            token: found.token,
            heartbeat_timeout_s: found.heartbeat_timeout.as_secs(),
            callback_url,
            certificate,
        };
        let lost = found.step.map(unknown_step);
        if let Some(step) = &lost {
            error!(
                "Ironic is in the middle of {}, and this agent has no record of it; it reports the step as failed, since a disk \
                 may be half written",
                step.name
            );
        }
        self.keep(|journal| journal.begin(session.clone(), lost));
        Some(session)
    }

    fn keep(&self, change: impl FnOnce(&mut Journal) -> io::Result<()>) {
        if let Err(error) = change(&mut self.commands.journal()) {
            warn!(
                "the session cannot be kept, so an agent that restarts cannot continue it: {error}"
            );
        }
    }

    /// The certificate, valid by the clock of Ironic: this machine's may be wrong by years.
    fn certificate(&self, callback_url: &str, date: Option<SystemTime>) -> Option<Certificate> {
        let now = date.unwrap_or_else(|| self.commands.clock.time_of_day());
        let url = Url::parse(callback_url, &Zones::default())
            .map_err(|why| error!("the address for Ironic's commands, {callback_url}: {why}"))
            .ok()?;
        Certificate::new(url.host(), now).map_err(|why| error!("{why}")).ok()
    }

    /// The address for Ironic's commands: the configured one, or the one from which Ironic is reached.
    fn callback_url(&self) -> Option<String> {
        if let Some(configured) = &self.settings.callback_url {
            return Some(configured.clone());
        }
        self.set_up(|| {
            let server = self.api.address().ok_or("no address".to_owned());
            server.and_then(|server| callback_url(server, self.settings.port)).map_err(|why| {
                format!("the address for Ironic's commands is unknown: {why}; set callback-url")
            })
        })
    }

    /// Tries until it succeeds; `None` after a signal.
    fn set_up<T>(&self, attempt: impl Fn() -> Result<T, String>) -> Option<T> {
        loop {
            match attempt() {
                Ok(made) => return Some(made),
                Err(why) => warn!("{why}"),
            }
            self.commands.clock.sleep(SETUP_RETRY, &self.stop);
            if self.stop.is_stopped() {
                return None;
            }
        }
    }

    /// The wait after a heartbeat that failed: 5 to 10 seconds, as in ironic-python-agent.
    fn pause(&self) -> Duration {
        let least = self.settings.least_interval;
        self.between(least, 2 * least)
    }

    /// A random time between two.
    fn between(&self, least: Duration, most: Duration) -> Duration {
        let random = f64::from(self.commands.clock.random()) / f64::from(u32::MAX);
        least + most.saturating_sub(least).mul_f64(random)
    }

    fn wait(&self, limit: Duration, least: Duration) {
        wait(&self.commands.is_due, limit, least, self.commands.clock.as_ref(), &self.stop);
    }

    /// Sends heartbeats until Ironic rejects the token, and returns whether it accepted it before; `None` if something
    /// else ended them.
    fn beat(&self, session: &Session) -> Option<bool> {
        let path = format!("/v1/heartbeat/{}", session.node_uuid);
        let body = json!({
            "callback_url": session.callback_url,
            "agent_token": session.token.expose(),
            "agent_version": env!("CARGO_PKG_VERSION"),
            "agent_verify_ca": session.certificate.pem,
        });
        let body = Arc::new(body.to_string().into_bytes());
        let timeout = Duration::from_secs(session.heartbeat_timeout_s);
        let mut was_accepted = false;
        while !self.stop.is_stopped() && !self.commands.is_closed() {
            let sent = self.api.call(&path, Some(VERSION), Some(&body));
            let answered = sent.and_then(|response| match response.status {
                200..=299 => Ok(()),
                _ => Err(refused("the heartbeat", &response, advice)),
            });
            let wait = match answered {
                Ok(()) => {
                    if !std::mem::replace(&mut was_accepted, true) {
                        let url = &session.callback_url;
                        info!("Ironic accepts heartbeats; commands are expected at {url}");
                    }
                    self.between(timeout.mul_f64(PARTS.0), timeout.mul_f64(PARTS.1))
                }
                Err(failed) if is_token_rejected(&failed) => {
                    debug!("{}", failed.message);
                    let pause = self.pause();
                    self.wait(pause, pause);
                    return (!self.stop.is_stopped()).then_some(was_accepted);
                }
                Err(failed) => {
                    warn!("{}", failed.message);
                    self.pause()
                }
            };
            self.wait(wait, self.settings.least_interval.min(wait));
        }
        None
    }
}

/// Waits for `limit`, or for `least` if the next heartbeat `is_due`; no longer than until a signal arrives.
fn wait(is_due: &AtomicBool, limit: Duration, least: Duration, clock: &dyn Clock, stop: &Stop) {
    let started = clock.now();
    while !stop.is_stopped() {
        let spent = clock.now().saturating_duration_since(started);
        if spent >= limit || (spent >= least && is_due.load(Ordering::Relaxed)) {
            break;
        }
        clock.sleep(SLICE.min(limit.saturating_sub(spent)), stop);
    }
    is_due.store(false, Ordering::Relaxed);
}

/// True if Ironic does not know the token, or the node.
fn is_token_rejected(failed: &Failed) -> bool {
    failed.status == Some(404)
        || failed.status == Some(400) && failed.message.contains("agent token")
}

fn advice(status: u16, fault: &str) -> Option<String> {
    let advice = match status {
        400 if fault.contains("Detected change") => {
            "Ironic knows another agent of this boot, whose certificate or address differs; power-cycle the node through \
             Ironic"
        }
        400 if fault.contains("TLS is required") => "set callback-url to an https address",
        409 => "the node is locked; the next heartbeat may be accepted",
        _ => return None,
    };
    Some(advice.into())
}

/// The URL with the address of this machine from which a server is reached. Nothing is sent.
fn callback_url(server: &Url, port: u16) -> Result<String, String> {
    let server_port = if server.is_https() { 443 } else { 80 };
    let targets = (server.host(), server_port).to_socket_addrs();
    let targets = targets.map_err(|error| format!("looking up {}: {error}", server.host()))?;
    let mut last = format!("{} has no address", server.host());
    for target in targets {
        let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let found = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(target)?;
            socket.local_addr()
        });
        match found {
            // Ironic's address of an IPv6 link is not this machine's, so it could not respond.
            Ok(SocketAddr::V6(address)) if address.ip().is_unicast_link_local() => {
                "Ironic is reached from a link-local address".clone_into(&mut last);
            }
            Ok(address) => return Ok(format!("https://{}", SocketAddr::new(address.ip(), port))),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn ended_step_makes_a_heartbeat_due_but_not_at_once_after_the_last_one() {
        let (is_due, stop) = (AtomicBool::new(true), Stop::default());
        let spent = |limit_ms, least_ms| {
            let limits = [limit_ms, least_ms].map(Duration::from_millis);
            let started = RealClock.now();
            wait(&is_due, limits[0], limits[1], &RealClock, &stop);
            RealClock.now().duration_since(started)
        };
        let due = spent(60_000, 300);
        assert!(due >= Duration::from_millis(300) && due < Duration::from_secs(20), "{due:?}");
        // It is due only once.
        assert!(spent(200, 0) >= Duration::from_millis(200));
    }

    #[test]
    fn rejected_token_is_distinguished_from_other_refusals() {
        for (status, message, is_rejected) in [
            (400, "Invalid or missing agent token received.", true),
            (404, "", true),
            (400, "Detected change in ramdisk provided \"callback_url\"", false),
            (409, "", false),
        ] {
            let failed = Failed { status: Some(status), ..Failed::network(message.to_owned()) };
            assert_eq!(is_token_rejected(&failed), is_rejected, "{status} {message}");
        }
    }

    #[test]
    fn address_is_the_one_from_which_the_server_is_reached() {
        let url =
            |server: &str| callback_url(&Url::parse(server, &Zones::default()).unwrap(), 9998);
        assert_eq!(url("http://127.0.0.1:6385").unwrap(), "https://127.0.0.1:9998");
        // A machine without IPv6 has no address to reach the server from.
        if UdpSocket::bind("[::1]:0").is_ok() {
            assert_eq!(url("http://[::1]:6385").unwrap(), "https://[::1]:9998");
        }
        assert!(url("http://no-such-host.invalid").is_err());
    }
}
