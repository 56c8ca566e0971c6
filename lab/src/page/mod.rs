//! The pages: server-rendered, every value escaped (a report is hostile input), live by server-sent events.

mod fleet;
mod job;
mod load;
mod models;
mod node;
mod report;
mod shell;
mod words;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};

use crate::http::{
    Answer, Refusal, Request, json_answer, no_content, not_allowed, set_header, unserved,
};
use crate::lab::{Lab, MAX_VIEWERS};
use crate::stream::written;

/// Answers a GET outside the API, the files and the admin API.
///
/// # Errors
/// 404 when the page does not exist, 500 when the database fails.
pub(crate) fn answer(lab: &Arc<Lab>, request: &Request, parts: &[&str]) -> Result<Answer, Refusal> {
    match parts {
        [""] => fleet::page(lab, &request.base),
        ["live"] => live(lab),
        ["models"] => models::page(lab),
        ["nodes", id] => node::page(lab, request, id),
        ["nodes", id, file @ ("report.json" | "events.json" | "result.json")] => {
            download(lab, id, file)
        }
        ["favicon.ico"] => Ok(no_content()),
        _ => Err(unserved()),
    }
}

/// Carries out a form.
///
/// # Errors
/// 4xx when the form is refused or does not exist, 500 when the database fails.
pub(crate) fn submit(lab: &Lab, request: &Request, parts: &[&str]) -> Result<Answer, Refusal> {
    match parts {
        ["nodes", id, "load"] => load::change(lab, request, id),
        _ => Err(not_allowed()),
    }
}

/// Returns a document from a node, unchanged, as a download.
fn download(lab: &Lab, id: &str, file: &str) -> Result<Answer, Refusal> {
    lab.store.node(id)?.ok_or_else(unserved)?;
    let value = lab.store.sent(id, file.trim_end_matches(".json"))?.ok_or_else(unserved)?;
    let mut answer = json_answer(StatusCode::OK, &value);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let name: String = id.chars().filter(is_plain).collect();
    let disposition = format!("attachment; filename=\"{name}-{file}\"");
    set_header(&mut answer, "content-disposition", &disposition);
    Ok(answer)
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
    let mut changes = lab.store.changes();
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
        set_header(&mut answer, name, value);
    }
    Ok(answer)
}
