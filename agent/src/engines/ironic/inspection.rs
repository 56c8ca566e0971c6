//! Inspection: posts the input of Ironic's hooks to `POST /v1/continue_inspection`, as ironic-python-agent does.
//!
//! 202 means only that the document is well formed and a node is waiting for it: the hooks run later, and their
//! rejection is in the node's `last_error`. The answer is never logged, since newer versions put the agent's token into
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;

use formats::guid;
use serde_json::Value;
use tracing::{info, warn};

use super::api::{Api, refused};
use crate::http::client::GaveUp;
use crate::http::retry::Why;

/// The outcome of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspected {
    /// Ironic has the document; the node's UUID, if the answer names it.
    Accepted(Option<String>),
    /// Ironic does not wait for an inspection of this node: it is being deployed or cleaned, or is not enrolled.
    NotExpected(String),
    /// The same after an answer was lost: the document was probably accepted.
    MaybeDelivered(String),
    /// Ironic refuses the document.
    Refused(String),
}

/// Posts the document and retries until Ironic responds.
///
/// # Errors
/// [`GaveUp`]: Ironic did not respond in time, or a signal ended the agent.
pub fn inspect(api: &Api, document: &Value) -> Result<Inspected, GaveUp> {
    let body = Arc::new(document.to_string().into_bytes());
    let macs = addresses(document).join(",");
    let mut is_answer_lost = false;
    let limit = api.client().time_left();
    api.client().until_success("posting the inspection to Ironic", limit, || {
        let called = api.call("/v1/continue_inspection", None, Some(&body));
        let response = called.inspect_err(|failed| is_answer_lost |= failed.may_have_arrived)?;
        if response.status == 202 {
            let answer: Value = serde_json::from_slice(&response.body).unwrap_or_default();
            let uuid = answer.get("uuid").or_else(|| answer.pointer("/node/uuid"));
            let uuid = uuid.and_then(Value::as_str).filter(|uuid| guid::parse(uuid).is_some());
            return Ok(Inspected::Accepted(uuid.map(str::to_owned)));
        }
        let failed = refused("posting the inspection", &response, |status, fault| {
            advice(status, fault, &macs)
        });
        match (response.status, failed.why) {
            (_, Why::Unavailable | Why::Network) => Err(failed),
            (404, _) if is_answer_lost => Ok(Inspected::MaybeDelivered(failed.message)),
            (404, _) => Ok(Inspected::NotExpected(failed.message)),
            _ => Ok(Inspected::Refused(failed.message)),
        }
    })
}

/// Returns advice on a refused inspection.
fn advice(status: u16, fault: &str, macs: &str) -> Option<String> {
    let advice = match status {
        404 if fault.contains("API version") => {
            "a proxy in front of Ironic adds an API version; remove X-OpenStack-Ironic-API-Version".into()
        }
        404 => format!(
            "Ironic waits for no inspection of a node with one of these MACs: {macs}; add a port with one of them to \
             the node and start its inspection, or set [auto_discovery] enabled. Ports with the MACs of several nodes \
             lead to the same answer"
        ),
        400 if fault.contains("No lookup information") => {
            "this machine has neither a port with a MAC nor a BMC with an address, so Ironic cannot find its node".into()
        }
        400 if fault.contains("Schema error") => {
            "Ironic does not accept the form of the document; report the bug with this text".into()
        }
        400 if fault.contains("nested too deeply") => {
            "raise [api] max_json_body_depth in ironic.conf".into()
        }
        400 => "a proxy may have changed the request; see the log of Ironic's API".into(),
        _ => return None,
    };
    Some(advice)
}

/// The MACs by which Ironic finds the node.
pub(super) fn addresses(document: &Value) -> Vec<String> {
    let interfaces = document.pointer("/inventory/interfaces").and_then(Value::as_array);
    let macs = interfaces.into_iter().flatten().filter_map(|port| port["mac_address"].as_str());
    // Ironic refuses a list with an address of another length, such as that of an InfiniBand port.
    let macs: BTreeSet<String> =
        macs.filter(|mac| mac.len() == 17).map(str::to_ascii_lowercase).collect();
    macs.into_iter().collect()
}

/// Logs how the inspection ended.
pub(super) fn log(inspected: &Inspected) {
    match inspected {
        Inspected::Accepted(Some(uuid)) => info!("Ironic has the inspection of node {uuid}"),
        Inspected::Accepted(None) => info!("Ironic has the inspection"),
        Inspected::MaybeDelivered(why) => warn!(
            "the inspection was probably delivered: an answer was lost, and Ironic no longer waits for it ({why})"
        ),
        Inspected::NotExpected(_) => info!("Ironic is not inspecting this machine"),
        Inspected::Refused(why) => tracing::error!("{why}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ethernet_addresses_are_looked_up_each_once_in_lower_case() {
        let port = |mac: &str| json!({"name": "x", "mac_address": mac});
        let long = "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:12:34:56";
        let ports = [port("02:00:00:00:00:0B"), port("02:00:00:00:00:0a"), port(long)];
        let twice: Vec<Value> = ports.iter().chain(&ports).cloned().collect();
        let document = json!({"inventory": {"interfaces": twice}});
        assert_eq!(addresses(&document), ["02:00:00:00:00:0a", "02:00:00:00:00:0b"]);
        assert!(addresses(&json!({"inventory": null})).is_empty());
    }

    #[test]
    fn each_refusal_of_the_document_has_its_own_advice() {
        let advices = [
            (404, "Resource could not be found."),
            (404, "API version 1.84 or newer is required"),
            (400, "No lookup information provided"),
            (400, "Schema error for data: 'inventory' is a required property"),
            (400, "nested too deeply"),
            (400, ""),
        ];
        let mut texts: Vec<String> =
            advices.iter().map(|(status, fault)| advice(*status, fault, "m").unwrap()).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), advices.len());
    }
}
