//! The requests of VIM API v1. Each is repeated until it succeeds, its deadline passes or a signal ends the agent.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::api::{
    API_VERSION, Accepted, EventBatch, IGNITION_MEDIA_TYPE, JSON_MEDIA_TYPE, NODE_ID_PATTERN,
    NeighbourReport, Neighbours, is_node_id,
};
use crate::clean;
use crate::http::client::{GaveUp, MAX_ANSWER_BYTES, MAX_IGNITION_BYTES};
use crate::http::refusal::refusal;
use crate::http::retry::{Failed, RetryAfter, Why};
use crate::http::url::Url;
use crate::http::{Client, Request, Response};
use crate::random;

/// The header by which the VIM recognises a request that is repeated.
pub(super) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Advice on a server that does not know a path of the API.
const NO_VIM: &str = "check that this is the address of a VIM with API v1";

/// The VIM's response to a report or to a request for the instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An instruction, not yet parsed.
    Instruction(Vec<u8>),
    /// A bare Ignition config: install it on the only disk, if that is blank or contains an earlier `CoreOS`.
    Ignition(Vec<u8>),
    /// No instruction yet.
    NotYet {
        /// The VIM's id for the node, if it sent one.
        node_id: Option<String>,
        /// Time to wait, with jitter.
        wait: Duration,
        /// Address to ask next, if it gave one.
        location: Option<Url>,
    },
    /// 404: the VIM does not know the node.
    NotKnown(Failed),
}

impl Client {
    /// Posts the report, which is JSON, and returns the response.
    ///
    /// # Errors
    /// [`GaveUp`]; the VIM does not have the report.
    pub fn post_report(&self, report: &[u8]) -> Result<Answer, GaveUp> {
        let url = self.url_of("/v1/reports").map_err(GaveUp::Refused)?;
        let request = report_request(report);
        let attempt = || self.try_report(&url, &request, report);
        self.until_success("posting the report", self.time_left(), attempt)
    }

    /// Sends `request`, which contains the report.
    pub(super) fn try_report(
        &self,
        url: &Url,
        request: &Request,
        report: &[u8],
    ) -> Result<Answer, Failed> {
        #[derive(Deserialize)]
        struct Named {
            node_id: String,
        }
        let node_id = serde_json::from_slice::<Named>(report).map(|named| named.node_id);
        let node_id = node_id.unwrap_or_default();
        self.answer(self.ask(url, request, &node_id, MAX_ANSWER_BYTES)?, url)
    }

    /// Requests the instruction at `location`, or at the path that the API defines.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub fn instruction(&self, node_id: &str, location: Option<&Url>) -> Result<Answer, GaveUp> {
        let path = format!("/v1/nodes/{node_id}/instruction");
        let url = location.cloned().map_or_else(|| self.url_of(&path), Ok);
        let url = url.map_err(GaveUp::Refused)?;
        self.until_success("asking for the instruction", self.time_left(), || {
            let reply = self.ask(&url, &Request::get(), node_id, MAX_IGNITION_BYTES)?;
            match reply.status {
                404 => Ok(Answer::NotKnown(refusal(&reply, &url, NO_VIM))),
                _ => self.answer(reply, &url),
            }
        })
    }

    /// Supplements the report with LLDP neighbours, without retrying.
    ///
    /// # Errors
    /// The VIM did not accept them.
    pub fn put_neighbours(&self, node_id: &str, neighbours: &Neighbours) -> Result<(), Failed> {
        let url = self.url_of(&format!("/v1/nodes/{node_id}/neighbours"))?;
        let report =
            NeighbourReport { api_version: API_VERSION.into(), neighbours: neighbours.clone() };
        self.deliver(&url, &Request::put(json(&report, "the neighbours")?), node_id)
    }

    /// Posts events, without retrying.
    ///
    /// # Errors
    /// The VIM did not accept them.
    pub fn post_events(&self, node_id: &str, events: &EventBatch) -> Result<(), Failed> {
        let url = self.url_of(&format!("/v1/nodes/{node_id}/events"))?;
        self.deliver(&url, &Request::post(json(events, "the events")?), node_id)
    }

    /// Sends a body that the VIM only accepts or refuses.
    pub(super) fn deliver(
        &self,
        url: &Url,
        request: &Request,
        node_id: &str,
    ) -> Result<(), Failed> {
        check_accepted(&self.ask(url, request, node_id, MAX_ANSWER_BYTES)?, url)
    }

    /// Parses the response to a report or to a request for the instruction.
    fn answer(&self, reply: Response, url: &Url) -> Result<Answer, Failed> {
        let media_type = reply.content_type.split(';').next().unwrap_or_default().trim();
        let invalid = |what: &str| {
            let message = format!("{} gave no valid answer: {what}", url.shown());
            Err(Failed { status: Some(reply.status), ..Failed::unavailable(message) })
        };
        match reply.status {
            200..=202 if reply.is_cut => invalid("the response is too large"),
            200 | 201 if media_type == IGNITION_MEDIA_TYPE => Ok(Answer::Ignition(reply.body)),
            // Proxies and captive portals answer 200 with a page of their own.
            200 | 201 if media_type != JSON_MEDIA_TYPE => {
                let found = &reply.content_type;
                invalid(&clean::unexpected("its content type", found, 60, JSON_MEDIA_TYPE))
            }
            200 | 201 if !resembles_instruction(&reply.body) => {
                invalid("it is not an instruction in JSON")
            }
            200 | 201 => Ok(Answer::Instruction(reply.body)),
            // 204 is accepted like a 202 without a body: the report is accepted, no instruction yet.
            202 | 204 => {
                let accepted = match &reply.body[..] {
                    [] => None,
                    _ if media_type != JSON_MEDIA_TYPE => return invalid("its body is not JSON"),
                    body => match serde_json::from_slice::<Accepted>(body) {
                        Ok(accepted) if !is_node_id(&accepted.node_id) => {
                            let expected = format!("its node_id is not {NODE_ID_PATTERN}");
                            return invalid(&expected);
                        }
                        Ok(accepted) => Some(accepted),
                        Err(error) if error.to_string().starts_with("missing field") => {
                            return invalid("its body has no node_id");
                        }
                        Err(_) => return invalid("its body is not that of a 202"),
                    },
                };
                let asked = accepted.as_ref().and_then(|accepted| accepted.retry_after_s);
                let asked = reply.retry_after.or(asked.map(RetryAfter::seconds));
                let location = reply.location.and_then(|to| self.base.as_ref()?.at_location(&to));
                Ok(Answer::NotYet {
                    node_id: accepted.map(|accepted| accepted.node_id),
                    wait: RetryAfter::poll(asked, self.clock.as_ref()),
                    location,
                })
            }
            _ => Err(refusal(&reply, url, NO_VIM)),
        }
    }
}

/// True if a body is JSON with a key of an instruction, so that the VIM wrote it and learns its fault.
fn resembles_instruction(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Keys {
        api_version: Option<IgnoredAny>,
        request_id: Option<IgnoredAny>,
        action: Option<IgnoredAny>,
    }
    match serde_json::from_slice::<Keys>(body) {
        Ok(keys) => {
            keys.api_version.is_some() || keys.request_id.is_some() || keys.action.is_some()
        }
        // Duplicate keys and deep nesting; an array is accepted as keys in their order.
        Err(error) => error.is_data() && body.trim_ascii_start().starts_with(b"{"),
    }
}

/// Checks that the VIM accepted a body. It responds without a body of its own, or with JSON; the page of a proxy is neither.
fn check_accepted(reply: &Response, url: &Url) -> Result<(), Failed> {
    let is_json = reply.content_type.starts_with(JSON_MEDIA_TYPE);
    match reply.status {
        200..=299 if reply.is_cut || !reply.body.is_empty() && !is_json => {
            let message = format!("{} gave no valid answer", url.shown());
            Err(Failed { status: Some(reply.status), ..Failed::unavailable(message) })
        }
        200..=299 => Ok(()),
        _ => Err(refusal(reply, url, NO_VIM)),
    }
}

/// The POST of a report, compressed, with a key of its own.
pub(super) fn report_request(report: &[u8]) -> Request {
    // Compressing into memory cannot fail; if it ever does, the report is posted uncompressed.
    let request = match gzip(report) {
        Ok(compressed) => Request::post(compressed).with("Content-Encoding", "gzip"),
        Err(_) => Request::post(report.to_vec()),
    };
    request.with(IDEMPOTENCY_KEY, random::uuid())
}

/// `value` as JSON, cleaned: it may repeat text from servers, disks and programs. A value that cannot be serialised is
/// a failure, never an empty body.
pub(super) fn json(value: &impl Serialize, what: &str) -> Result<Vec<u8>, Failed> {
    let bytes = serde_json::to_value(value).and_then(|mut value| {
        clean::json(&mut value);
        serde_json::to_vec(&value)
    });
    bytes.map_err(|error| Failed {
        why: Why::Refused,
        ..Failed::network(format!("writing {what} as JSON: {error}"))
    })
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}
