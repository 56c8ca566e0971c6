//! The steps `api-vip-connectivity-check` and `tang-connectivity-check`: whether a server of the cluster gives this host what
//! the installed system will ask it for.

use ignition::Pointer;
use ignition::check::MAX_MINOR;
use serde_json::{Value, json};

use super::step::Step;
use super::tasks::Around;
use crate::secret::redact;

/// Most Tang servers of one step.
const MAX_SERVERS: usize = 16;

/// Fetches the Ignition config of a worker from the cluster that this host is to join.
pub(super) fn api_vip(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    let url = text("url").ok_or("it names no url")?;
    let token = text("ignition_endpoint_token").filter(|token| !token.is_empty());
    let token = token.map(|token| format!("Bearer {token}"));
    let given = request.get("request_headers").and_then(Value::as_array);
    let given = given
        .into_iter()
        .flatten()
        .filter_map(|header| Some((header.get("key")?.as_str()?, header.get("value")?.as_str()?)));
    let headers = token.iter().map(|token| ("Authorization", token.as_str())).chain(given);
    let authorities = text("ca_certificate").unwrap_or_default().as_bytes();
    let pointer = Pointer { key: "url", url, headers: headers.collect(), authorities };
    let fetched = around.api.client.fetch_pointer(&pointer, MAX_MINOR);
    let config = fetched.and_then(|bytes| {
        let is_json = serde_json::from_slice::<Value>(&bytes).is_ok();
        let text = String::from_utf8(bytes).ok().filter(|_| is_json);
        text.ok_or_else(|| format!("{} gave no JSON, expected an Ignition config", redact(url)))
    });
    let error = config.as_ref().err().cloned().unwrap_or_default();
    let (is_success, ignition) = (config.is_ok(), config.unwrap_or_default());
    Ok(json!({"is_success": is_success, "url": url, "ignition": ignition, "download_error": error}))
}

/// Fetches the advertisement of every Tang server, by the thumbprint of its key.
pub(super) fn tang(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let servers = request.get("tang_servers").and_then(Value::as_str);
    let servers: Vec<Value> = servers
        .and_then(|text| serde_json::from_str(text).ok())
        .filter(|servers: &Vec<Value>| servers.len() <= MAX_SERVERS)
        .ok_or_else(|| format!("tang_servers is no list of at most {MAX_SERVERS} servers"))?;
    let ask = |server: &Value| {
        let text =
            |key: &str| server.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(url), Some(thumbprint)) = (text("url"), text("thumbprint")) else {
            return Err("a server has no url or no thumbprint".to_owned());
        };
        let url = format!("{}/adv/{thumbprint}", url.trim_end_matches('/'));
        let pointer = Pointer { key: "url", url: &url, headers: Vec::new(), authorities: &[] };
        let bytes = around.api.client.fetch_pointer(&pointer, MAX_MINOR)?;
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let payload = answer.get("payload").filter(|payload| payload.is_string());
        let payload = payload
            .ok_or_else(|| format!("{} gave no advertisement with a payload", redact(&url)))?;
        Ok(json!({"tang_url": url, "payload": payload, "signatures": answer.get("signatures")}))
    };
    let answers = servers.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"is_success": true, "tang_server_response": answers}))
}
