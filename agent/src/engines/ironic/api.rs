//! Requests to Ironic's API, at the first of several addresses that responds, and the meaning of its refusals.
//!
//! Ironic's documentation of `continue_inspection`, `lookup` and `heartbeat` (API reference, "Ramdisk"); the forms of its
//! errors were measured with Ironic 39.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use serde_json::Value;

use crate::clean;
use crate::clock::Clock;
use crate::http::retry::{Failed, Why, is_transient};
use crate::http::url::Url;
use crate::http::{Client, Request, Response, ServerSettings};
use crate::signals::Stop;

/// The longest text of Ironic that is repeated, in characters.
const MAX_FAULT_CHARS: usize = 500;
/// Paths that people append to the address of the API.
const SUFFIXES: [&str; 3] = ["/v1/continue_inspection", "/v1/continue", "/v1"];

/// The API of one Ironic, which may have several addresses.
#[derive(Debug)]
pub struct Api {
    servers: Vec<Client>,
    /// The server that responded last.
    current: AtomicUsize,
}

impl Api {
    /// Makes the clients without sending anything. The address may be a list, separated by commas.
    ///
    /// # Errors
    /// An address is malformed, plain HTTP is not allowed, or a file cannot be read.
    pub fn new(
        settings: &ServerSettings,
        clock: &Arc<dyn Clock>,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let addresses = settings.url.as_deref().unwrap_or_default();
        let client = |address: &str| {
            // The token is that of the agent, which goes into the body of heartbeats.
            let url = Some(without_suffix(address.trim()).to_owned());
            let settings = ServerSettings { url, token_file: None, ..settings.clone() };
            Client::new(&settings, Arc::clone(clock), stop.clone())
        };
        let servers: anyhow::Result<Vec<Client>> = addresses.split(',').map(client).collect();
        let servers = servers.context("the address of Ironic")?;
        Ok(Self { servers, current: AtomicUsize::new(0) })
    }

    /// The client of the server that responded last.
    pub fn client(&self) -> &Client {
        // A list without commas still has one part.
        &self.servers[self.current.load(Ordering::Relaxed) % self.servers.len()]
    }

    /// The address of that server.
    pub fn address(&self) -> Option<&Url> {
        self.client().base()
    }

    /// Sends a request to the server that responded last, then to the others.
    ///
    /// # Errors
    /// None responded; the failure of the last one.
    pub fn call(
        &self,
        path: &str,
        version: Option<&'static str>,
        body: Option<&Arc<Vec<u8>>>,
    ) -> Result<Response, Failed> {
        // The body is never compressed, because Ironic does not decompress it.
        let mut request = body.map_or_else(Request::get, |body| Request::post(Arc::clone(body)));
        if let Some(version) = version {
            request = request.with("X-OpenStack-Ironic-API-Version", version);
        }
        let first = self.current.load(Ordering::Relaxed);
        let (mut last, mut unavailable) = (None, None);
        for n in 0..self.servers.len() {
            let index = (first + n) % self.servers.len();
            match self.servers[index].exchange(path, &request) {
                // A proxy without its server; another address may have one.
                Ok(response) if is_transient(response.status) => {
                    unavailable.get_or_insert(response);
                }
                Ok(response) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok(response);
                }
                // The caller must know of this before another address says that nothing is expected.
                Err(failed) if failed.may_have_arrived && body.is_some() => {
                    self.current.store((index + 1) % self.servers.len(), Ordering::Relaxed);
                    return Err(failed);
                }
                Err(failed) => last = Some(failed),
            }
        }
        if let Some(response) = unavailable {
            return Ok(response);
        }
        Err(last.unwrap_or_else(|| Failed::network("no address of Ironic is configured".into())))
    }
}

fn without_suffix(address: &str) -> &str {
    let address = address.trim_end_matches('/');
    SUFFIXES.iter().fold(address, |address, suffix| address.strip_suffix(suffix).unwrap_or(address))
}

/// Describes a request that Ironic refused, and decides whether trying again soon can help. `advice` gets the status
/// and Ironic's text.
pub(super) fn refused(
    what: &str,
    response: &Response,
    advice: impl FnOnce(u16, &str) -> Option<String>,
) -> Failed {
    let status = response.status;
    let fault = fault(&response.body).unwrap_or_default();
    let mut message = format!("{what}: Ironic responded {status}");
    if !fault.is_empty() {
        message.extend([": ", &fault]);
    }
    if let Some(advice) = advice(status, &fault).or_else(|| general_advice(status)) {
        message.extend(["; ", &advice]);
    }
    // 409: another request holds the lock of the node for a moment.
    let why = if status == 409 || is_transient(status) { Why::Unavailable } else { Why::Refused };
    let retry_after = response.retry_after;
    Failed { why, retry_after, status: Some(status), ..Failed::network(message) }
}

/// Advice for a status that means the same for every request.
fn general_advice(status: u16) -> Option<String> {
    let advice = match status {
        300..=399 => "configure the address that it redirects to",
        401 | 403 => {
            "this path of Ironic's API is public; check that no proxy in front of it asks for a password"
        }
        404 | 405 => "check that this is the address of Ironic's API, without /v1",
        406 => "this Ironic is older than API 1.68 (Wallaby), which the agent needs",
        413 => "raise [api] max_json_body_size_inspection in ironic.conf",
        500..=599 => "see the log of Ironic's API",
        _ => return None,
    };
    Some(advice.into())
}

/// Ironic's text in an error. It comes as `{"faultstring": …}`, as `{"error_message": {"faultstring": …}}`, as the same
/// with the inner object as JSON text, or as `{"error_message": "text"}`.
pub(super) fn fault(body: &[u8]) -> Option<String> {
    let mut fault: Value = serde_json::from_slice(body).ok()?;
    if let Some(inner) = fault.get_mut("error_message").map(Value::take) {
        let of_text = inner.as_str().and_then(|text| serde_json::from_str(text).ok());
        fault = of_text.filter(Value::is_object).unwrap_or(inner);
    }
    let text = fault.get("faultstring").unwrap_or(&fault).as_str()?;
    let text = clean::text(text.trim(), MAX_FAULT_CHARS);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_found_in_every_form_of_ironics_errors() {
        let text = "Invalid or missing agent token received.";
        for body in [
            format!(r#"{{"faultstring":"{text}","faultcode":"Client"}}"#),
            format!(r#"{{"error_message":{{"faultstring":"{text}","debuginfo":null}}}}"#),
            format!(
                r#"{{"error_message":"{{\"faultcode\":\"Client\",\"faultstring\":\"{text}\"}}"}}"#
            ),
            format!(r#"{{"error_message":"{text}"}}"#),
        ] {
            assert_eq!(fault(body.as_bytes()).as_deref(), Some(text), "{body}");
        }
        for body in ["", "<html>", "null", "{}", r#"{"error_message":null}"#, "[1]"] {
            assert_eq!(fault(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn address_may_name_a_path_of_the_api() {
        for address in ["http://h", "http://h/", "http://h/v1/", "http://h/v1/continue_inspection"]
        {
            assert_eq!(without_suffix(address), "http://h", "{address}");
        }
    }
}
