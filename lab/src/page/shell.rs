//! The frame of every page: head, style, script, and headers that let a page run only this script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::http::{Answer, answer, set_header};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// A page: title, link back, content.
pub(super) fn shell(title: &str, back: Option<&str>, content: &Markup) -> Answer {
    with_headers(document(title, back, content).into())
}

/// Returns the HTML for a page.
pub(super) fn document(title: &str, back: Option<&str>, content: &Markup) -> String {
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
pub(super) fn with_headers(page: Bytes) -> Answer {
    let mut answer = answer(StatusCode::OK, "text/html; charset=utf-8", page);
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
        set_header(&mut answer, name, value);
    }
    answer
}
