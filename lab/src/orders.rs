//! The answer to a node: the instruction or Ignition config that is set for this node or for all, sent in the mode that is set.

use formats::digest::{Algorithm, sha512};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use crate::cli::{AfterInstall, Mode};
use crate::http::{Answer, Refusal, full, retry_after, set_header};
use crate::lab::Lab;
use crate::store::Node;

/// Media type for a bare Ignition config.
pub(crate) const IGNITION_TYPE: &str = "application/vnd.coreos.ignition+json";

/// Time and form of the answer to a report: the setting `answer`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnswerMode {
    /// At once, later, never, or the bare Ignition config.
    pub(crate) mode: Mode,
    /// `later`: number of further requests that a node must make.
    pub(crate) polls: u32,
    /// Retry-After in a 202: seconds, or `date:SECONDS`.
    pub(crate) retry_after: String,
    /// The node's new name; absent: it keeps its own.
    pub(crate) node_id: Option<String>,
}

impl Default for AnswerMode {
    fn default() -> Self {
        Self { mode: Mode::Direct, polls: 1, retry_after: "2".to_owned(), node_id: None }
    }
}

/// An answer in a form that can be kept under an Idempotency-Key.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Order {
    status: u16,
    /// Empty for an answer without a body.
    content_type: String,
    body: String,
    retry_after: Option<String>,
    location: Option<String>,
}

impl Order {
    /// The answer itself.
    pub(crate) fn answer(self) -> Answer {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut answer = Response::new(full(self.body));
        *answer.status_mut() = status;
        let content_type = Some(self.content_type).filter(|kind| !kind.is_empty());
        for (name, value) in [
            ("content-type", content_type),
            ("retry-after", self.retry_after),
            ("location", self.location),
        ] {
            if let Some(value) = value {
                set_header(&mut answer, name, &value);
            }
        }
        answer
    }

    /// An answer without a body.
    pub(crate) fn no_content() -> Self {
        Self { status: 204, ..Self::default() }
    }

    fn ok(content_type: &str, body: String) -> Self {
        Self { status: 200, content_type: content_type.to_owned(), body, ..Self::default() }
    }

    fn json(value: &Value) -> Self {
        Self::ok("application/json", format!("{value:#}\n"))
    }
}

/// Returns the scope for a node's own settings.
pub(crate) fn scope_of(node: &str) -> String {
    format!("node:{node}")
}

/// The mode that is set for a node, or for all.
pub(crate) fn answer_mode(lab: &Lab, node: &str) -> Result<AnswerMode, Refusal> {
    let own = lab.store.setting(&scope_of(node), "answer")?;
    let text = match own {
        Some(text) => text,
        None => lab.store.setting("default", "answer")?.unwrap_or_else(|| "{}".to_owned()),
    };
    serde_json::from_str(&text).map_err(|error| Refusal::new(500, "STORE", error.to_string()))
}

/// The name that the VIM uses for the node that reports itself as `reported`.
pub(crate) fn known_name(lab: &Lab, reported: &str) -> Result<String, Refusal> {
    let own = lab.store.setting(&scope_of(reported), "answer")?;
    let mode = own.and_then(|text| serde_json::from_str::<AnswerMode>(&text).ok());
    Ok(mode.and_then(|mode| mode.node_id).unwrap_or_else(|| reported.to_owned()))
}

/// The answer to a node now. `reported` is its own name, `base` the address that it contacted.
///
/// # Errors
/// 500 when a setting in the database is broken, or an instruction names a file that is not served.
pub(crate) fn order(lab: &Lab, reported: &str, base: &str) -> Result<Order, Refusal> {
    let mode = answer_mode(lab, reported)?;
    let node = mode.node_id.clone().unwrap_or_else(|| reported.to_owned());
    let Some(source) = source(lab, reported)? else { return Ok(not_yet(&mode, &node)) };
    let is_later = mode.mode == Mode::Later && lab.count_poll(&node) <= mode.polls;
    if is_later || mode.mode == Mode::Never {
        return Ok(not_yet(&mode, &node));
    }
    if let Some(known) = lab.store.node(&node)?
        && let Some(reason) = reboot(lab, &known, &source)?
    {
        return Ok(Order::json(&json!({
            "api_version": "1", "request_id": "lab-reboot", "action": "reboot", "reason": reason,
        })));
    }
    if mode.mode == Mode::Bare
        && let Some(ignition) = source.ignition()
    {
        return Ok(Order::ok(IGNITION_TYPE, ignition));
    }
    let mut instruction = source.instruction();
    fill(lab, &mut instruction, base)?;
    complete(lab, &mut instruction, &node, reported)?;
    Ok(Order::json(&instruction))
}

/// Returns the answer to a report from the node that this VIM calls `node`: the new name, and the address for requests.
///
/// # Errors
/// 500 when a setting in the database is broken.
pub(crate) fn renamed(lab: &Lab, reported: &str, node: &str) -> Result<Order, Refusal> {
    Ok(not_yet(&answer_mode(lab, reported)?, node))
}

/// A setting: an instruction, or an Ignition config to install.
#[derive(Debug)]
struct Source {
    scope: String,
    is_instruction: bool,
    text: String,
}

impl Source {
    fn instruction(&self) -> Value {
        if self.is_instruction {
            return serde_json::from_str(&self.text).unwrap_or(Value::Null);
        }
        let hash = sha512(self.text.as_bytes());
        json!({"action": "install", "install": {"ignition": {"inline": self.text, "hash": hash}}})
    }

    fn ignition(&self) -> Option<String> {
        if !self.is_instruction {
            return Some(self.text.clone());
        }
        let instruction = self.instruction();
        instruction["install"]["ignition"]["inline"].as_str().map(str::to_owned)
    }
}

/// Returns the node's setting, or the one for all; an instruction takes precedence over an Ignition config.
fn source(lab: &Lab, node: &str) -> Result<Option<Source>, Refusal> {
    for scope in [scope_of(node), "default".to_owned()] {
        for kind in ["instruction", "ignition"] {
            if let Some(text) = lab.store.setting(&scope, kind)? {
                return Ok(Some(Source { scope, is_instruction: kind == "instruction", text }));
            }
        }
    }
    Ok(None)
}

fn not_yet(mode: &AnswerMode, node: &str) -> Order {
    let seconds = mode.retry_after.trim_start_matches("date:").parse::<u64>().unwrap_or(2);
    let accepted = json!({"node_id": node, "retry_after_s": seconds});
    Order {
        status: 202,
        retry_after: Some(retry_after(&mode.retry_after)),
        location: Some(format!("/v1/nodes/{node}/instruction")),
        ..Order::json(&accepted)
    }
}

/// Returns the reason why a node needs no other install, if it was installed and nothing else was asked for since.
///
/// # Errors
/// 500 when a setting in the database is broken.
pub(crate) fn installed(lab: &Lab, node: &Node) -> Result<Option<String>, Refusal> {
    let source = source(lab, node.reported_name().unwrap_or(&node.id))?;
    source.map_or(Ok(None), |source| reboot(lab, node, &source))
}

/// Outcomes of an instruction that is carried out.
pub(crate) const ENDED_WELL: [&str; 3] = ["installed", "already_installed", "reignited"];

/// Returns the reason to reboot for a node that has installed its instruction already.
fn reboot(lab: &Lab, node: &Node, source: &Source) -> Result<Option<String>, Refusal> {
    if lab.options.after_install != AfterInstall::Reboot {
        return Ok(None);
    }
    let Some(result) = lab.store.last("results", &node.id)? else { return Ok(None) };
    let action = source.instruction()["action"].clone();
    let is_install = action == "install" || action == "reignite";
    let is_changed = lab.store.is_changed_since_result(&source.scope, &node.id)?;
    let is_installed = ENDED_WELL.iter().any(|end| result.body["outcome"] == *end);
    let is_done = is_installed && is_install && !is_changed;
    Ok(is_done.then(|| {
        format!(
            "installed at {}; to install again, set a new instruction or start the lab VIM with \
             --after-install install",
            result.received_at
        )
    }))
}

/// Adds `api_version`, `request_id` and a new name where they are absent.
fn complete(lab: &Lab, instruction: &mut Value, node: &str, reported: &str) -> Result<(), Refusal> {
    let [(_, n_reports), ..] = lab.store.counts(node)?;
    let Value::Object(object) = instruction else { return Ok(()) };
    object.entry("api_version").or_insert(json!("1"));
    object.entry("request_id").or_insert(json!(format!("lab-{n_reports}")));
    if node != reported {
        object.entry("node_id").or_insert(json!(node));
    }
    Ok(())
}

/// Replaces `{{base}}` and `{{sha256:/files/NAME}}` in every string.
fn fill(lab: &Lab, value: &mut Value, base: &str) -> Result<(), Refusal> {
    each_template(value, &|word| {
        let refuse = |message| Err(Refusal::new(500, "INSTRUCTION_TEMPLATE", message));
        let (algorithm, path) = match word.split_once(':') {
            None if word == "base" => return Ok(base.to_owned()),
            Some(("sha256", path)) => (Algorithm::Sha256, path),
            Some(("sha512", path)) => (Algorithm::Sha512, path),
            _ => {
                return refuse(format!(
                    "the instruction has {{{{{word}}}}}, expected base or shaN:"
                ));
            }
        };
        match lab.shelf.digest(path, algorithm) {
            Some(digest) => Ok(digest["sha256-".len()..].to_owned()),
            None => refuse(format!("the instruction's {{{{{word}}}}}: {path:?} is not served")),
        }
    })
}

/// Replaces each `{{WORD}}` in every string by what `fill` returns for the word.
pub(crate) fn each_template(
    value: &mut Value,
    fill: &dyn Fn(&str) -> Result<String, Refusal>,
) -> Result<(), Refusal> {
    match value {
        Value::String(text) => {
            let mut filled = String::new();
            let mut rest = text.as_str();
            while let Some((head, tail)) = rest.split_once("{{")
                && let Some((word, tail)) = tail.split_once("}}")
            {
                filled = filled + head + &fill(word)?;
                rest = tail;
            }
            *text = filled + rest;
        }
        Value::Array(values) => {
            values.iter_mut().try_for_each(|value| each_template(value, fill))?;
        }
        Value::Object(object) => {
            // The Ignition config is passed on byte for byte.
            let others = object.iter_mut().filter(|(key, _)| *key != "inline");
            others.map(|(_, value)| value).try_for_each(|value| each_template(value, fill))?;
        }
        _ => {}
    }
    Ok(())
}

/// Returns the Ignition config for a node, or for all with `default`.
pub(crate) fn ignition(lab: &Lab, name: &str) -> Result<Option<String>, Refusal> {
    if name == "default" {
        return Ok(lab.store.setting("default", "ignition")?);
    }
    Ok(source(lab, name)?.and_then(|source| source.ignition()))
}
