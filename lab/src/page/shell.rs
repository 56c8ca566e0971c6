//! The frame of every page: style, script, and headers that let a page run only this script.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::StatusCode;
use sha2::{Digest, Sha256};

use crate::http::{Answer, Refusal, answer, set_header};

/// The style of every page.
pub(super) const STYLE: &str = include_str!("../../templates/style.css");
/// The script of every page.
pub(super) const SCRIPT: &str = include_str!("../../templates/live.js");

/// Returns the HTML for a page.
///
/// # Errors
/// 500 when the template fails.
pub(super) fn html(page: &impl Template) -> Result<String, Refusal> {
    page.render().map_err(|error| Refusal::new(500, "PAGE", format!("making the page: {error}")))
}

/// The answer with a page, which may only run our script.
pub(super) fn with_headers(page: Bytes) -> Answer {
    let mut answer = answer(StatusCode::OK, "text/html; charset=utf-8", page);
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = format!(
        "default-src 'none'; connect-src 'self'; style-src 'sha256-{}'; script-src 'sha256-{}'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        digest(STYLE),
        digest(SCRIPT),
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
