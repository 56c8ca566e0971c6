//! ironic-inspector, as the director of `OpenStack` runs it: the machine's data are posted once to `/v1/continue`, and the
//! inspector then powers the machine off.
//!
//! Its hooks and rules run before it answers, unlike those of Ironic's own inspection: 200 with the node's UUID means
//! that they accepted the data. Errors are `{"error": {"message": …}}` with status 400, also for an unknown node
//! (`ironic_inspector/{main,process}.py` of 12.5 and of 7.2, the release in OSP 13).

mod document;
mod extra;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;
use tracing::{error, info};

pub use self::document::document;
use crate::act::say::Words;
use crate::act::{Outcome, Stage, settle};
use crate::api::Code;
use crate::clean;
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::http::retry::{Failed, is_transient};
use crate::http::{Client, Request, Response, ServerSettings};
use crate::job::power::wait_for_signal;
use crate::job::{AfterCrash, Crash, Engine, Next, Node, Survey};
use crate::signals::Stop;

/// Name of the action, for messages.
const WHAT: &str = "posting the data to ironic-inspector";
/// Path to which the data are posted.
const PATH: &str = "/v1/continue";
/// The longest text of the inspector that is repeated, in characters.
const MAX_FAULT_CHARS: usize = 500;
/// Time to wait for a port with an address, as ironic-python-agent does.
const ADDRESS_LIMIT: Duration = Duration::from_mins(1);
/// Time to wait before the ports are read again.
const ADDRESS_POLL: Duration = Duration::from_secs(5);

/// The engine of ironic-inspector: posts the machine's data and waits until the inspector powers the machine off.
#[derive(Debug)]
pub struct Inspector<'a> {
    client: Client,
    node: Node,
    survey: Survey<'a, Value>,
}

impl<'a> Inspector<'a> {
    /// Makes the engine without sending anything. `survey` reads the machine and makes the document.
    ///
    /// # Errors
    /// It is a dry run, a setting of the server is wrong, or one of its files cannot be read.
    pub fn new(
        server: &ServerSettings,
        node: Node,
        survey: Survey<'a, Value>,
    ) -> anyhow::Result<Self> {
        let client = client(server, &node.clock, &node.stop)?;
        ensure!(
            !node.settings.is_dry_run,
            "dry-run needs --backend vim: the inspector powers the machine off"
        );
        Ok(Self { client, node, survey })
    }
}

impl Engine for Inspector<'_> {
    fn next(&mut self) -> Next {
        let (clock, stop) = (self.node.clock.as_ref(), &self.node.stop);
        settle::wait(&self.node.settings.site.system);
        let document = survey_with_address(self.survey.0, clock, stop);
        self.node.record(Stage::Report);
        match inspect(&self.client, &document) {
            Ok(uuid) => {
                info!(
                    "ironic-inspector has the data of node {uuid}; waiting for it to power this machine off"
                );
                let what = "ironic-inspector to power this machine off";
                self.node.console.waits_for(what, &uuid);
            }
            Err(error) => {
                error!("{}: {error:#}; nothing was installed", Code::NoReport);
                return Next::End(ExitStatus::NotReported);
            }
        }
        wait_for_signal(clock, stop);
        Next::End(ExitStatus::Untouched)
    }

    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus> {
        Some(outcome.exit_status())
    }

    /// The inspector does not listen; its own time limit ends the introspection.
    fn crashed(&mut self, _: &Crash) -> AfterCrash {
        AfterCrash::End(None)
    }

    fn term(&self) -> Words {
        crate::act::say::plain
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node
    }
}

/// A client of the inspector. Its address may contain the path, as the director writes it for the ramdisk.
///
/// # Errors
/// The address is missing or malformed, plain HTTP is not allowed, or a file cannot be read.
pub fn client(
    settings: &ServerSettings,
    clock: &Arc<dyn Clock>,
    stop: &Stop,
) -> anyhow::Result<Client> {
    let address = settings.url.as_deref().context("the address of ironic-inspector is missing")?;
    let address = address.trim_end_matches('/');
    let base = [PATH, "/v1"].iter().fold(address, |url, end| url.strip_suffix(end).unwrap_or(url));
    let settings = ServerSettings { url: Some(base.to_owned()), ..settings.clone() };
    Client::new(&settings, Arc::clone(clock), stop.clone())
        .context("the address of ironic-inspector")
}

/// The document. The inspector refuses a machine without a port that has an address, and DHCP may not have ended yet.
fn survey_with_address(survey: &mut dyn FnMut() -> Value, clock: &dyn Clock, stop: &Stop) -> Value {
    let started = clock.now();
    info!("reading the machine's hardware");
    loop {
        let document = survey();
        let is_late = clock.now().duration_since(started) >= ADDRESS_LIMIT;
        if is_late || stop.is_stopped() || document::has_address(&document) {
            return document;
        }
        info!("no port has an address yet; reading the hardware again");
        clock.sleep(ADDRESS_POLL, stop);
    }
}

/// Posts the document, retries until the inspector responds, and returns the node's UUID.
///
/// # Errors
/// The inspector refused the data or knows no such node, or did not respond in time, or a signal ended the agent.
pub fn inspect(client: &Client, document: &Value) -> anyhow::Result<String> {
    let body = Arc::new(document.to_string().into_bytes());
    // The inspector processes a node's data once: if it has them already, another try finds no waiting node.
    let mut earlier = None;
    let answer = client.until_success(WHAT, client.time_left(), || {
        let tried = client.exchange(PATH, &Request::post(Arc::clone(&body))).and_then(answer);
        if let Err(failed) = &tried
            && (failed.may_have_arrived || failed.status.is_some())
        {
            earlier = Some(failed.message.clone());
        }
        tried
    });
    match answer.map_err(|gave_up| anyhow!("{gave_up}"))? {
        Ok(uuid) => Ok(uuid),
        Err(response) => bail!(refusal(&response, document, earlier.as_deref())),
    }
}

/// The node's UUID, or a refusal; a failure if another try can help.
fn answer(response: Response) -> Result<Result<String, Response>, Failed> {
    let status = response.status;
    let advice = match status {
        200..=299 => match uuid(&response.body) {
            Some(uuid) => return Ok(Ok(uuid)),
            None => "it names no node; check that this is the address of ironic-inspector",
        },
        409 => "it is busy",
        _ if is_transient(status) => "see the log of ironic-inspector",
        _ => return Ok(Err(response)),
    };
    let retry_after = response.retry_after;
    let message = format!("{}; {advice}", said(&response));
    Err(Failed { status: Some(status), retry_after, ..Failed::unavailable(message) })
}

fn uuid(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let uuid = answer.get("uuid")?.as_str()?;
    formats::guid::parse(uuid).map(|_| uuid.to_owned())
}

/// The status, and the text of `{"error": {"message": …}}`.
fn said(response: &Response) -> String {
    let fault = fault(&response.body).map(|fault| format!(": {fault}")).unwrap_or_default();
    format!("ironic-inspector responded {}{fault}", response.status)
}

fn fault(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let text = answer.pointer("/error/message")?.as_str()?;
    let text = clean::text(text.trim(), MAX_FAULT_CHARS);
    (!text.is_empty()).then_some(text)
}

/// Describes the refusal: the inspector's text, and advice.
fn refusal(response: &Response, document: &Value, earlier: Option<&str>) -> String {
    let fault = fault(&response.body).unwrap_or_default();
    let is_unknown = fault.contains("Could not find") || fault.contains("state 'finished'");
    let advice = match (response.status, earlier) {
        // Without such a port it also finds no node.
        _ if fault.contains("No suitable interfaces") => {
            "the inspector takes ports that have an address, and with [processing] add_ports = pxe only the port \
             that the machine was booted from"
                .into()
        }
        (_, Some(earlier)) if is_unknown => format!(
            "it has probably processed an earlier try, see `openstack baremetal introspection status`: {earlier}"
        ),
        _ if is_unknown => format!(
            "start the introspection of the node before the machine; the node needs {}",
            document::identity(document)
        ),
        // It knows no way from `waiting` to `error`, and so it hides what its hooks said.
        _ if fault.contains("state 'waiting' on event 'error'") => match document["error"].as_str() {
            Some(error) => format!("it refuses data with an error: {}", clean::text(error, MAX_FAULT_CHARS)),
            None => "one of its hooks refused the data; see the log of ironic-inspector".into(),
        },
        (300..=399, _) => "configure the address that it redirects to".into(),
        (401 | 403, _) => {
            "this path is public; check that no proxy in front of it asks for a password".into()
        }
        (404 | 405, _) if !fault.contains("in Ironic") => {
            "check that this is the address of ironic-inspector, by default port 5050".into()
        }
        _ => "see the log of ironic-inspector".into(),
    };
    format!("{WHAT}: {}; {advice}", said(response))
}

/// Posts the document of a report, without waiting for anything else.
///
/// # Errors
/// As [`client`].
pub fn send(settings: &ServerSettings, document: &Value) -> anyhow::Result<ExitStatus> {
    let clock: Arc<dyn Clock> = Arc::new(crate::clock::RealClock);
    Ok(match inspect(&client(settings, &clock, &Stop::default())?, document) {
        Ok(uuid) => {
            info!("ironic-inspector has the data of node {uuid}, and its rules are applied");
            ExitStatus::Done
        }
        Err(error) => {
            error!("{error:#}");
            ExitStatus::NotReported
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_refusal_has_its_own_advice() {
        let document = json!({"inventory": {
            "interfaces": [{"mac_address": "02:00:00:00:00:01"}], "bmc_address": "192.0.2.9",
        }, "error": "no disks"});
        let of = |status: u16, fault: &str, earlier: Option<&str>| {
            let body = json!({"error": {"message": fault}}).to_string().into_bytes();
            refusal(&Response { status, body, ..Response::default() }, &document, earlier)
        };
        let unknown = "Look up error: Could not find a node for attributes {}";
        for (status, fault, earlier, advice) in [
            (400, unknown, None, "02:00:00:00:00:01; or its BMC at 192.0.2.9"),
            (400, unknown, Some("503"), "has probably processed an earlier try"),
            (
                400,
                "No suitable interfaces found in {}\nLook up error: Could not find",
                None,
                "add_ports",
            ),
            (400, "Can not transition from state 'finished'", Some("503"), "an earlier try"),
            (400, "from state 'waiting' on event 'error' (no", None, "with an error: no disks"),
            (500, "x", Some("503"), "see the log"),
            (302, "", None, "redirects"),
            (403, "", None, "password"),
            (404, "404 Not Found", None, "5050"),
            (404, "Node 1 was not found in Ironic", None, "see the log"),
        ] {
            let said = of(status, fault, earlier);
            assert!(said.contains(advice) && said.contains(&status.to_string()), "{said}");
        }
    }
}
