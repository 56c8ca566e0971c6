//! The form on a node's page that allows a waiting node to test its CPUs and memory: `load_s` in the
//! action `wait` (docs/wire.md).

use hyper::{Response, StatusCode};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::job::Standing;
use crate::http::{Answer, Refusal, Request, encoded, full, query, set_header};
use crate::lab::Lab;
use crate::orders::scope_of;
use crate::store::Node;

/// Maximum that an instruction may allow (`load_s` in the API).
const MOST_S: u64 = 86_400;
/// Often enough that the node soon learns that the test is no longer allowed.
const ASK_AGAIN_S: u64 = 5;

/// Shows the form; nothing for a node that is at work or installed, a node with another instruction or its own config,
/// or a reader who may not use the admin API.
pub(super) fn panel(
    lab: &Lab,
    node: &Node,
    standing: &Standing,
    request: &Request,
) -> Result<Markup, Refusal> {
    let scope = scope_of(reported(node));
    let own = lab.store.setting(&scope, "instruction")?;
    let has_config = lab.store.setting(&scope, "ignition")?.is_some();
    let allowed = own.as_deref().and_then(load_s);
    let has_own = own.is_some() || has_config;
    let is_waiting = ["reported", "waiting", "blocked"].contains(&standing.label);
    if !may_change(lab, request)
        || allowed.is_none() && (has_own || !is_waiting || node.report.is_none())
    {
        return Ok(html! {});
    }
    let action = format!("/nodes/{}/load", encoded(&node.id));
    Ok(html! {
        section.panel aria-labelledby="load" {
            h2 #load { "Test under load" }
            form.line method="post" action=(action) {
                input type="hidden" name="token" value=(lab.form_token);
                @if let Some(seconds) = allowed {
                    p {
                        "The node waits, and may compute on every CPU and test its free memory for " (seconds)
                        " s after each report. It then reports again; what failed is among the faults and findings."
                    }
                    p.muted {
                        "Once you end the test, "
                        @if has_config { "the node is installed with the Ignition config that was set for it." }
                        @else { "the node follows the instruction for all nodes." }
                    }
                    button.button #load-end type="submit" { "End the test" }
                } @else {
                    label for="load-seconds" { "Let the node compute on every CPU and test its free memory for" }
                    span {
                        input #load-seconds type="number" name="seconds" value="60" min="1" max=(MOST_S) required;
                        " s"
                    }
                    button.button #load-start type="submit" { "Start the test" }
                    p.muted { "Until you end the test, the node waits, whatever the instruction for all nodes is." }
                }
            }
        }
    })
}

/// Carries out the form: allows the load for `seconds`, or takes it back if there are none.
///
/// # Errors
/// 403 for a form that this VIM did not make, and for a reader who may not use the admin API; 409 for a node with
/// its own other instruction, 422 for a duration in seconds that the API does not allow.
pub(super) fn change(lab: &Lab, request: &Request, id: &str) -> Result<Option<Answer>, Refusal> {
    let Some(node) = lab.store.node(id)? else { return Ok(None) };
    let body = std::str::from_utf8(&request.body).ok();
    // Another site can make a browser send the form, but cannot read the token.
    let is_ours = query(body, "token").is_some_and(|token| token == lab.form_token);
    if !may_change(lab, request) || !is_ours {
        return Err(Refusal::new(
            403,
            "ADMIN",
            "expected the form of the node's page, sent from this machine",
        ));
    }
    let scope = scope_of(reported(&node));
    let own = lab.store.setting(&scope, "instruction")?;
    let is_foreign = match &own {
        Some(own) => load_s(own).is_none(),
        None => lab.store.setting(&scope, "ignition")?.is_some(),
    };
    if is_foreign {
        return Err(Refusal::new(409, "INSTRUCTION_SET", "the node has an instruction of its own"));
    }
    let instruction = match query(body, "seconds") {
        None => None,
        Some(text) => {
            let seconds = text.parse().ok().filter(|seconds| (1..=MOST_S).contains(seconds));
            let message = format!("found {text:?}, expected 1 to {MOST_S} seconds");
            let seconds = seconds.ok_or_else(|| Refusal::new(422, "SETTING_INVALID", message))?;
            let wait = json!({
                "action": "wait", "load_s": seconds, "retry_after_s": ASK_AGAIN_S,
                "reason": "a test under load was asked for",
            });
            Some(wait.to_string())
        }
    };
    lab.store.set(&scope, "instruction", instruction.as_deref())?;
    lab.changed();
    let mut answer = Response::new(full(""));
    *answer.status_mut() = StatusCode::SEE_OTHER;
    set_header(&mut answer, "location", &format!("/nodes/{}", encoded(id)));
    Ok(Some(answer))
}

/// Returns the name under which the node's settings are stored, even if it was given another.
fn reported(node: &Node) -> &str {
    let name = node.report.as_ref().and_then(|report| report.body["node_id"].as_str());
    name.unwrap_or(&node.id)
}

/// Returns the load in seconds that an instruction allows.
fn load_s(instruction: &str) -> Option<u64> {
    let instruction: Value = serde_json::from_str(instruction).ok()?;
    instruction["load_s"].as_u64().filter(|_| instruction["action"] == "wait")
}

/// Returns true if this reader may give orders to nodes.
fn may_change(lab: &Lab, request: &Request) -> bool {
    request.is_local || lab.open_admin
}
