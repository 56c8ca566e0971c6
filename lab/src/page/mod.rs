//! The pages: server-rendered, every value escaped (a report is hostile input), live by server-sent events.

mod faults;
mod fleet;
mod job;
mod load;
mod models;
mod node;
mod report;
mod words;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::http::{Answer, Refusal, answer as plain, json_answer};
use crate::lab::Lab;
use crate::server::Request;
use crate::stream::written;

/// Most pages that are kept up to date at a time.
pub(crate) const MAX_VIEWERS: usize = 200;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// Answers a GET outside the API, the files and the admin API; `None` when there is no such page.
///
/// # Errors
/// 500 when the database fails.
pub(crate) fn answer(
    lab: &Arc<Lab>,
    request: &Request,
    parts: &[&str],
) -> Result<Option<Answer>, Refusal> {
    match parts {
        [""] => fleet::page(lab, &request.base).map(Some),
        ["live"] => live(lab).map(Some),
        ["models"] => models::page(lab).map(Some),
        ["nodes", id] => node::page(lab, request, id),
        ["nodes", id, what @ ("report.json" | "events.json" | "result.json")] => {
            download(lab, id, what)
        }
        ["favicon.ico"] => Ok(Some(crate::http::no_content())),
        _ => Ok(None),
    }
}

/// Carries out a form; `None` when there is no such form.
///
/// # Errors
/// 4xx when the form is refused, 500 when the database fails.
pub(crate) fn submit(
    lab: &Lab,
    request: &Request,
    parts: &[&str],
) -> Result<Option<Answer>, Refusal> {
    match parts {
        ["nodes", id, "load"] => load::change(lab, request, id),
        _ => Ok(None),
    }
}

/// The pages that are made of all nodes, as they were sent last: many viewers fetch them after each change.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    fleet: Made,
    models: Made,
}

/// A page with what it was made of.
#[derive(Debug, Default)]
struct Made(Mutex<Option<(String, Bytes)>>);

impl Made {
    /// The page of `key`, made if the last one had another. Nobody else makes it meanwhile: each takes time and memory.
    fn page(
        &self,
        key: String,
        make: impl FnOnce() -> Result<String, Refusal>,
    ) -> Result<Answer, Refusal> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, page)) = &*last
            && *known == key
        {
            return Ok(with_headers(page.clone()));
        }
        let page = Bytes::from(make()?);
        *last = Some((key, page.clone()));
        Ok(with_headers(page))
    }
}

/// A page: title, link back, content.
pub(super) fn shell(title: &str, back: Option<&str>, content: &Markup) -> Answer {
    with_headers(document(title, back, content).into())
}

/// The HTML of a page.
fn document(title: &str, back: Option<&str>, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                noscript { meta http-equiv="refresh" content="5"; }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header.top {
                    a.brand href="/" { span.mark aria-hidden="true" {} "Lab VIM" }
                    @if let Some(here) = back {
                        nav aria-label="Breadcrumb" {
                            a href="/" { "Nodes" } span aria-hidden="true" { "/" }
                            span aria-current="page" { (here) }
                        }
                    }
                    span #live.live role="status" {}
                    noscript { "reloads every 5 s" }
                }
                main #content { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The answer with a page, which may only run our script.
fn with_headers(page: Bytes) -> Answer {
    let mut answer = plain(StatusCode::OK, "text/html; charset=utf-8", page);
    let policy = format!(
        "default-src 'none'; connect-src 'self'; style-src 'sha256-{}'; script-src 'sha256-{}'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        STANDARD.encode(Sha256::digest(STYLE)),
        STANDARD.encode(Sha256::digest(SCRIPT)),
    );
    for (name, value) in [
        ("content-security-policy", policy.as_str()),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// What a node sent, unchanged, as a download.
fn download(lab: &Lab, id: &str, what: &str) -> Result<Option<Answer>, Refusal> {
    let Some(node) = lab.store.node(id)? else { return Ok(None) };
    let value = match what {
        "report.json" => node.report.map(|report| report.body),
        "result.json" => lab.store.last_result(id)?.map(|result| result.body),
        _ => {
            let events = lab.store.events(id, 10_000)?;
            Some(events.into_iter().map(|event| event.body).collect())
        }
    };
    let Some(value) = value else { return Ok(None) };
    let mut answer = json_answer(StatusCode::OK, &value);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let name: String = id.chars().filter(is_plain).collect();
    let disposition = format!("attachment; filename=\"{name}-{what}\"");
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        answer.headers_mut().insert("content-disposition", value);
    }
    Ok(Some(answer))
}

/// Server-sent events: one for each change, and a comment now and then to keep the connection open.
///
/// # Errors
/// 503 when too many pages are open.
fn live(lab: &Arc<Lab>) -> Result<Answer, Refusal> {
    let Ok(place) = Arc::clone(&lab.viewers).try_acquire_owned() else {
        let message = format!(
            "{MAX_VIEWERS} pages are open, the most that this VIM keeps up to date; reload a page to see changes"
        );
        return Err(Refusal::new(503, "VIEWERS", message));
    };
    let (pen, body) = written(None);
    let mut changes = lab.changes();
    tokio::spawn(async move {
        // Given back when this viewer is gone.
        let _place = place;
        let mut message = "retry: 1000\ndata: hello\n\n".to_owned();
        while pen.send(Ok(Bytes::from(message))).await.is_ok() {
            let quiet = Duration::from_secs(15);
            let change = tokio::select! {
                () = pen.closed() => return,
                change = tokio::time::timeout(quiet, changes.changed()) => change,
            };
            message = match change {
                Ok(Ok(())) => format!("data: {}\n\n", *changes.borrow_and_update()),
                Ok(Err(_)) => return,
                Err(_) => ": quiet\n\n".to_owned(),
            };
        }
    });
    let mut answer = Response::new(body);
    for (name, value) in [("content-type", "text/event-stream"), ("cache-control", "no-store")] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// A part of an address, percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_an_address_is_encoded() {
        assert_eq!(encoded("uuid-1:\"/"), "uuid-1%3A%22%2F");
    }
}
