//! The form on a node's page that allows a waiting node to test its CPUs and memory: `load_s` in the
//! action `wait` (docs/wire.md).

use hyper::StatusCode;
use serde_json::{Value, json};

use super::job::Standing;
use crate::http::{Answer, Refusal, Request, encoded, no_content, not_allowed, query, set_header};
use crate::lab::Lab;
use crate::orders::scope_of;
use crate::store::Node;

/// Maximum that an instruction may allow (`load_s` in the API).
pub(super) const MOST_S: u64 = 86_400;
/// Often enough that the node soon learns that the test is no longer allowed.
const ASK_AGAIN_S: u64 = 5;

/// The form.
pub(super) struct Form<'a> {
    pub(super) token: &'a str,
    /// The seconds for which the load is allowed now.
    pub(super) allowed: Option<u64>,
    /// True if the node has an Ignition config of its own.
    pub(super) has_config: bool,
}

/// Returns the form; `None` for a node that is at work or installed, a node with another instruction or its own
/// config, or a reader who may not use the admin API.
pub(super) fn form<'a>(
    lab: &'a Lab,
    node: &Node,
    standing: &Standing,
    request: &Request,
) -> Result<Option<Form<'a>>, Refusal> {
    let scope = scope_of(node.reported_name().unwrap_or(&node.id));
    let own = lab.store.setting(&scope, "instruction")?;
    let has_config = lab.store.setting(&scope, "ignition")?.is_some();
    let allowed = own.as_deref().and_then(load_s);
    let is_waiting = ["reported", "waiting", "blocked"].contains(&standing.label);
    let is_free = own.is_none() && !has_config && is_waiting && node.report.is_some();
    let is_shown = may_change(lab, request) && (allowed.is_some() || is_free);
    Ok(is_shown.then_some(Form { token: &lab.form_token, allowed, has_config }))
}

/// Carries out the form: allows the load for `seconds`, or takes it back if there are none.
///
/// # Errors
/// 403 for a form that this VIM did not make, and for a reader who may not use the admin API; 409 for a node with
/// its own other instruction, 422 for a duration in seconds that the API does not allow.
pub(super) fn change(lab: &Lab, request: &Request, id: &str) -> Result<Answer, Refusal> {
    let node = lab.store.node(id)?.ok_or_else(not_allowed)?;
    let body = std::str::from_utf8(&request.body).ok();
    // Another site can make a browser send the form, but cannot read the token.
    let is_ours = query(body, "token").is_some_and(|token| token == lab.form_token);
    if !may_change(lab, request) || !is_ours {
        let message = "expected the form of the node's page, sent from this machine";
        return Err(Refusal::new(403, "ADMIN", message));
    }
    let scope = scope_of(node.reported_name().unwrap_or(&node.id));
    let is_foreign = match lab.store.setting(&scope, "instruction")? {
        Some(own) => load_s(&own).is_none(),
        None => lab.store.setting(&scope, "ignition")?.is_some(),
    };
    if is_foreign {
        return Err(Refusal::new(409, "INSTRUCTION_SET", "the node has an instruction of its own"));
    }
    let instruction = query(body, "seconds").map(|text| wait(&text)).transpose()?;
    lab.store.set(&scope, "instruction", instruction.as_deref())?;
    let mut answer = no_content();
    *answer.status_mut() = StatusCode::SEE_OTHER;
    set_header(&mut answer, "location", &format!("/nodes/{}", encoded(id)));
    Ok(answer)
}

/// Makes the instruction that allows a load for the seconds in a text.
fn wait(text: &str) -> Result<String, Refusal> {
    let seconds = text.parse().ok().filter(|seconds: &u64| (1..=MOST_S).contains(seconds));
    let message = format!("found {text:?}, expected 1 to {MOST_S} seconds");
    let seconds = seconds.ok_or_else(|| Refusal::new(422, "SETTING_INVALID", message))?;
    let wait = json!({
        "action": "wait", "load_s": seconds, "retry_after_s": ASK_AGAIN_S,
        "reason": "a test under load was asked for",
    });
    Ok(wait.to_string())
}

/// Returns the load in seconds that an instruction allows.
fn load_s(instruction: &str) -> Option<u64> {
    let instruction: Value = serde_json::from_str(instruction).ok()?;
    instruction["load_s"].as_u64().filter(|_| instruction["action"] == "wait")
}

/// Returns true if this reader may give orders to nodes.
fn may_change(lab: &Lab, request: &Request) -> bool {
    request.is_local || lab.options.open_admin
}
