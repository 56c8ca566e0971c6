//! Lookup: which node this machine is, and the token of this boot, from `GET /v1/lookup`.
//!
//! Ironic gives the token once a boot and conceals it from then on. An agent without it can do nothing: Ironic rejects its
//! heartbeats, waits until its own time limit, and the node fails.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tracing::{error, info, warn};

use super::api::refused;
use super::heartbeat::Contact;
use super::steps::Kind;
use crate::http::client::GaveUp;
use crate::http::retry::{Failed, Why};
use crate::secret::Secret;

/// The version of the API that has everything that a lookup needs.
const VERSION: &str = "1.62";
/// A shorter text in the place of a token conceals it.
const LEAST_TOKEN_BYTES: usize = 32;
/// The least and greatest time in which Ironic wants to hear of the agent.
const TIMEOUT_S: (u64, u64) = (10, 24 * 3600);
/// Ironic's default of `[api] ramdisk_heartbeat_timeout`.
const DEFAULT_TIMEOUT_S: u64 = 300;

/// The result of a lookup.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) node_uuid: String,
    pub(super) token: Secret,
    /// A step that Ironic has ordered from an earlier agent of this boot.
    pub(super) step: Option<Kind>,
    /// Without a heartbeat in this time, Ironic gives the node up.
    pub(super) heartbeat_timeout: Duration,
    /// The time of day at Ironic.
    pub(super) date: Option<SystemTime>,
}

impl Contact {
    /// Looks the node up until Ironic knows it and is about to do something with it.
    ///
    /// # Errors
    /// [`GaveUp`]: not in time, or a signal ended the agent.
    pub(super) fn lookup(&self) -> Result<Found, GaveUp> {
        let client = self.api.client();
        let mut is_explained = false;
        client
            .until_success("asking Ironic which node this is", client.time_left(), || {
                self.lookup_once(self.settings.token.as_ref()).inspect_err(|failed| {
                    // An answer that cannot be used: a person must act.
                    if failed.status == Some(200) && !std::mem::replace(&mut is_explained, true) {
                        error!("{}", failed.message);
                    }
                })
            })
            .inspect(|found| info!("Ironic knows this machine as node {}", found.node_uuid))
    }

    /// Looks the node up once. `known` is a token that Ironic may conceal.
    ///
    /// # Errors
    /// Ironic did not respond, refused, or gave an answer that cannot be used (status 200).
    pub(super) fn lookup_once(&self, known: Option<&Secret>) -> Result<Found, Failed> {
        let (macs, uuid) = (self.macs.join(","), self.node_uuid.as_deref());
        let query = uuid.map(|uuid| format!("&node_uuid={uuid}")).unwrap_or_default();
        let path = format!("/v1/lookup?addresses={macs}{query}");
        let response = self.api.call(&path, Some(VERSION), None)?;
        if response.status != 200 {
            let advice = format!(
                "Ironic has no node with one of these MACs that it is inspecting, cleaning or deploying: {macs}"
            );
            let failed =
                refused("the lookup", &response, |status, _| (status == 404).then_some(advice));
            // A node is looked up long before it is deployed: a refusal is no fault that a person must correct.
            return Err(Failed { why: Why::Unavailable, ..failed });
        }
        let found = parse(&response.body, uuid, known)
            .map_err(|message| Failed { status: Some(200), ..Failed::unavailable(message) })?;
        Ok(Found { date: response.date, ..found })
    }
}

/// Parses an answer. The node must be `asked`, if that is known.
fn parse(body: &[u8], asked: Option<&str>, known: Option<&Secret>) -> Result<Found, String> {
    let answer: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the answer to the lookup is not JSON: {error}"))?;
    let uuid = answer.pointer("/node/uuid").and_then(Value::as_str);
    let uuid = uuid
        .filter(|uuid| formats::guid::parse(uuid).is_some())
        .ok_or("the answer to the lookup names no node")?;
    if let Some(asked) = asked.filter(|asked| !asked.eq_ignore_ascii_case(uuid)) {
        return Err(format!("the answer to the lookup of node {asked} is node {uuid}"));
    }
    let given = answer.pointer("/config/agent_token").and_then(Value::as_str);
    let given = given.filter(|token| token.len() >= LEAST_TOKEN_BYTES).map(Secret::new);
    let token = given.or_else(|| known.cloned()).ok_or(
        "Ironic has already given the token of this boot to an agent, and this one does not have it; power-cycle the \
         node through Ironic",
    )?;
    let (least, most) = TIMEOUT_S;
    let seconds = answer.pointer("/config/heartbeat_timeout").and_then(Value::as_u64);
    if seconds.is_none() {
        warn!(
            "the answer to the lookup has no heartbeat_timeout; assuming {DEFAULT_TIMEOUT_S} s, Ironic's default"
        );
    }
    let seconds = seconds.unwrap_or(DEFAULT_TIMEOUT_S).clamp(least, most);
    Ok(Found {
        node_uuid: uuid.to_owned(),
        token,
        step: step(&answer),
        heartbeat_timeout: Duration::from_secs(seconds),
        date: None,
    })
}

/// The step that an earlier agent of this boot was given. Ironic removes `agent_url` when it powers the node off, and the
/// index of the step when the last one has ended.
fn step(answer: &Value) -> Option<Kind> {
    let info = answer.pointer("/node/driver_internal_info")?;
    info.get("agent_url").and_then(Value::as_str).filter(|url| !url.is_empty())?;
    Kind::ALL
        .into_iter()
        .find(|kind| info.get(format!("{}_step_index", kind.as_str())).is_some_and(Value::is_u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(token: &str, timeout: u64) -> Vec<u8> {
        let uuid = "f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb01";
        let config = json!({"agent_token": token, "heartbeat_timeout": timeout});
        json!({"node": {"uuid": uuid}, "config": config}).to_string().into_bytes()
    }

    #[test]
    fn concealed_token_is_never_used() {
        let error = parse(&answer("******", 300), None, None).unwrap_err();
        assert!(error.contains("power-cycle"), "{error}");
        let configured = Secret::new("x".repeat(43));
        let found = parse(&answer("******", 300), None, Some(&configured)).unwrap();
        assert_eq!(found.token, configured);
        let found = parse(&answer(&"y".repeat(43), 300), None, Some(&configured)).unwrap();
        assert_eq!(found.token.expose(), "y".repeat(43));
    }

    #[test]
    fn absurd_time_limit_is_clamped_and_damaged_answer_refused() {
        for (timeout, expected) in [(0, 10), (300, 300), (u64::MAX, 24 * 3600)] {
            let found = parse(&answer(&"t".repeat(43), timeout), None, None).unwrap();
            assert_eq!(found.heartbeat_timeout.as_secs(), expected);
        }
        for body in ["", "null", "[]", r#"{"node":{"uuid":"../../x"}}"#] {
            assert!(parse(body.as_bytes(), None, None).is_err(), "{body}");
        }
    }

    #[test]
    fn answer_about_another_node_is_refused() {
        let body = answer(&"t".repeat(43), 300);
        let asked = |uuid| parse(&body, Some(uuid), None);
        assert!(asked("F2A4B2D6-95F3-4DBB-A343-A7B6D0BBBB01").is_ok());
        let why = asked("f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb02").unwrap_err();
        assert!(why.contains("bb02") && why.contains("bb01"), "{why}");
    }

    #[test]
    fn step_is_in_progress_only_if_ironic_knows_an_agent_of_this_boot() {
        let step = |info: Value| step(&json!({"node": {"driver_internal_info": info}}));
        let url = "https://192.0.2.1:9999";
        for (info, expected) in [
            (json!({"agent_url": url, "deploy_step_index": 0}), Some(Kind::Deploy)),
            (json!({"agent_url": url, "clean_step_index": 2}), Some(Kind::Clean)),
            (json!({"agent_url": url, "deploy_step_index": null}), None),
            (json!({"agent_url": url}), None),
            (json!({"deploy_step_index": 1}), None),
            (json!(null), None),
        ] {
            assert_eq!(step(info.clone()), expected, "{info}");
        }
    }
}
