//! The admin API, `/lab/…`: settings per node or for all, faults, documents from nodes, the request log.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::faults::Fault;
use crate::http::{Answer, Refusal, Request, header, json_answer, no_content, query};
use crate::lab::Lab;
use crate::orders::{AnswerMode, each_template, scope_of};
use crate::store::Node;

/// Answers a request below `/lab`; `rest` are the path's parts after it.
///
/// # Errors
/// 4xx for unknown nodes, files and settings, and for invalid ones.
pub(crate) async fn answer(lab: &Lab, request: &Request, rest: &[&str]) -> Result<Answer, Refusal> {
    if !request.is_local && !lab.options.open_admin {
        let message = "the admin API is for this machine only; --open-admin opens it";
        return Err(Refusal::new(403, "ADMIN", message));
    }
    let get = request.method == Method::GET;
    match rest {
        ["nodes"] if get => nodes(lab),
        ["nodes"] if request.method == Method::DELETE => {
            lab.store.forget_nodes()?;
            Ok(no_content())
        }
        ["nodes", id] if get => {
            let node = node(lab, id)?;
            Ok(shown(&summary(lab, &node)?))
        }
        ["nodes", id, what @ ("report" | "result" | "events" | "boots")] if get => {
            sent(lab, request, id, what).await
        }
        ["nodes", id, kind @ ("instruction" | "ignition" | "answer")] => {
            setting(lab, request, &scope_of(id), kind)
        }
        ["default", kind @ ("instruction" | "ignition" | "answer")] => {
            setting(lab, request, "default", kind)
        }
        ["faults"] => faults(lab, request),
        ["requests"] if get => Ok(shown(&lab.journal.list())),
        ["requests"] if request.method == Method::DELETE => {
            lab.journal.clear();
            Ok(no_content())
        }
        _ => {
            let message =
                format!("{} {:?} is not part of the admin API", request.method, request.path);
            Err(Refusal::new(404, "PATH_UNKNOWN", message))
        }
    }
}

fn shown(value: &Value) -> Answer {
    json_answer(StatusCode::OK, value)
}

fn node(lab: &Lab, id: &str) -> Result<Node, Refusal> {
    let message = || format!("node {id:?} has never contacted this VIM");
    lab.store.node(id)?.ok_or_else(|| Refusal::new(404, "NODE_UNKNOWN", message()))
}

fn nodes(lab: &Lab) -> Result<Answer, Refusal> {
    let nodes = lab.store.nodes()?;
    let summaries = nodes.iter().map(|node| summary(lab, node)).collect::<Result<Value, _>>()?;
    Ok(shown(&json!({"nodes": summaries})))
}

fn summary(lab: &Lab, node: &Node) -> Result<Value, Refusal> {
    let event = node.event.as_ref().map(|event| &event.body);
    let result = node.result.as_ref().map(|result| &result.body);
    let mut summary = json!({
        "node_id": node.id, "first_seen": node.first_seen, "last_seen": node.last_seen,
        "stage": event.map(|event| &event["stage"]), "state": event.map(|event| &event["state"]),
        "percent": event.map(|event| &event["percent"]),
        "outcome": result.map(|result| &result["outcome"]),
        "code": result.map(|result| &result["code"]),
    });
    for (key, n) in lab.store.counts(&node.id)? {
        summary[key] = json!(n);
    }
    Ok(summary)
}

/// Returns a document that a node sent; `?wait_s=N` waits for it.
async fn sent(lab: &Lab, request: &Request, id: &str, what: &str) -> Result<Answer, Refusal> {
    let wait = query(request.query.as_deref(), "wait_s").and_then(|wait| wait.parse().ok());
    let end = tokio::time::Instant::now() + Duration::from_secs(wait.unwrap_or(0).min(3600));
    let mut changes = lab.store.changes();
    loop {
        match find(lab, id, what) {
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => {
                match tokio::time::timeout_at(end, changes.changed()).await {
                    Ok(Ok(())) => {}
                    _ => return Err(refusal),
                }
            }
            found => return found.map(|found| shown(&found)),
        }
    }
}

fn find(lab: &Lab, id: &str, what: &str) -> Result<Value, Refusal> {
    node(lab, id)?;
    let missing = || Refusal::new(404, "NOT_SENT", format!("node {id:?} has sent no {what}"));
    let sent = lab.store.sent(id, what)?.filter(|sent| *sent != json!([])).ok_or_else(missing)?;
    Ok(if sent.is_array() { json!({what: sent}) } else { sent })
}

/// Reads, changes or removes a setting.
fn setting(lab: &Lab, request: &Request, scope: &str, kind: &str) -> Result<Answer, Refusal> {
    match request.method {
        Method::GET => {
            let missing = || Refusal::new(404, "NOT_SET", format!("no {kind} is set here"));
            let text = lab.store.setting(scope, kind)?.ok_or_else(missing)?;
            return Ok(crate::http::answer(StatusCode::OK, "application/json", text));
        }
        Method::DELETE => lab.store.set(scope, kind, None)?,
        Method::PUT => {
            let text = std::str::from_utf8(&request.body)
                .map_err(|_| Refusal::new(400, "JSON", "the body is no UTF-8"))?;
            let is_unchecked = query(request.query.as_deref(), "unchecked").is_some();
            let faults = if is_unchecked { Vec::new() } else { setting_faults(lab, kind, text) };
            if !faults.is_empty() {
                let message = format!("{}; ?unchecked=1 accepts it anyway", faults.join("; "));
                return Err(Refusal::new(422, "SETTING_INVALID", message));
            }
            lab.store.set(scope, kind, Some(text))?;
        }
        _ => return Err(Refusal::new(405, "METHOD", "a setting accepts GET, PUT and DELETE")),
    }
    Ok(no_content())
}

/// Lists the faults in a setting; empty for a valid one.
pub(crate) fn setting_faults(lab: &Lab, kind: &str, text: &str) -> Vec<String> {
    let mut value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return vec![format!("{kind} is not valid JSON: {error}")],
    };
    match kind {
        "instruction" => {
            if let Value::Object(object) = &mut value {
                object.entry("api_version").or_insert(json!("1"));
                object.entry("request_id").or_insert(json!("lab"));
            }
            // Of the right form, so that the form can be checked.
            let example = |word: &str| match word.split_once(':') {
                Some(("sha256", _)) => "0".repeat(64),
                Some(("sha512", _)) => "0".repeat(128),
                None if word == "base" => "http://vim.example".to_owned(),
                _ => format!("{{{{{word}}}}}"),
            };
            if let Err(refusal) = each_template(&mut value, &|word| Ok(example(word))) {
                return vec![refusal.message];
            }
            let faults = lab.contract.instruction.faults(&value);
            faults.into_iter().map(|fault| format!("instruction{fault}")).collect()
        }
        "answer" => match serde_json::from_value::<AnswerMode>(value) {
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("answer: {error}")],
        },
        _ if value["ignition"].is_object() => Vec::new(),
        _ => vec!["an Ignition config without the key \"ignition\"".to_owned()],
    }
}

fn faults(lab: &Lab, request: &Request) -> Result<Answer, Refusal> {
    let read = || -> Result<Vec<Fault>, Refusal> {
        if !header(&request.headers, "content-type").is_some_and(|t| t.contains("json")) {
            return Err(Refusal::new(415, "CONTENT_TYPE", "expected application/json"));
        }
        serde_json::from_slice(&request.body)
            .map_err(|error| Refusal::new(422, "FAULTS_INVALID", format!("faults: {error}")))
    };
    match request.method {
        Method::GET => {}
        Method::PUT => *lab.faults.left() = read()?,
        Method::POST => lab.faults.left().extend(read()?),
        Method::DELETE => lab.faults.left().clear(),
        _ => return Err(Refusal::new(405, "METHOD", "faults accept GET, PUT, POST and DELETE")),
    }
    Ok(shown(&json!(*lab.faults.left())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Options;

    fn lab(arguments: &[&str]) -> Lab {
        Lab::open(Options::parse_from([&["lab-vim"], arguments].concat()), None).unwrap()
    }

    fn from(is_local: bool) -> Request {
        Request { path: "/lab/nodes".to_owned(), is_local, ..Request::default() }
    }

    #[tokio::test]
    async fn the_admin_api_is_for_this_machine_unless_it_is_opened() {
        let closed = lab(&[]);
        assert!(answer(&closed, &from(true), &["nodes"]).await.is_ok());
        let refusal = answer(&closed, &from(false), &["nodes"]).await.unwrap_err();
        assert_eq!(refusal.status, StatusCode::FORBIDDEN);
        assert!(answer(&lab(&["--open-admin"]), &from(false), &["nodes"]).await.is_ok());
    }
}
