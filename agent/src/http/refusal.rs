//! Explains an error status, with advice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::Response;
use super::retry::{Failed, Why, is_transient};
use super::url::Url;
use crate::clean;

/// The body of an error response (4xx, 5xx).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Stable code of what is wrong, e.g. `REPORT_INVALID`.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}

/// Advice on an address at which nothing is.
pub(super) const CHECK_ADDRESS: &str = "check the address";

/// The meaning of 407, with advice.
pub(super) const PROXY_ASKS: &str = "the proxy asks for a user and password, or does not accept those that it got (HTTP \
     status 407); set them in its address (--proxy, or https_proxy, all_proxy or http_proxy), as USER:PASSWORD@ in front of the host";

/// The failure of a request with an error status, with advice; `not_there` is the one if the server does not know what
/// was asked for.
pub(crate) fn refusal(reply: &Response, url: &Url, not_there: &str) -> Failed {
    let status = reply.status;
    let why = if is_transient(status) { Why::Unavailable } else { Why::Refused };
    let mut message = format!("{} responded {status}", url.shown());
    if let Ok(problem) = serde_json::from_slice::<Problem>(&reply.body) {
        let text = clean::text(&problem.message, 200);
        let code = clean::text(&problem.code, 64);
        message.extend([" ", &code, ": ", &text]);
    }
    let advice = match status {
        300..=399 if reply.location.is_none() => {
            "it redirects without the header Location; configure the final address"
        }
        300..=399 => "configure the address that it redirects to",
        401 | 403 => {
            "give the agent a token (--token-file) or client certificate that the server accepts"
        }
        404 | 405 | 501 => not_there,
        407 => PROXY_ASKS,
        400..=499 if why == Why::Refused => "the server or the agent needs to be corrected",
        _ => "",
    };
    if !advice.is_empty() {
        message.extend(["; ", advice]);
    }
    let retry_after = reply.retry_after;
    Failed { why, retry_after, status: Some(status), ..Failed::network(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::url::Zones;

    #[test]
    fn server_without_the_method_gets_the_advice_to_check_the_address() {
        let url = Url::parse("http://vim.example/v1/reports", &Zones::default()).unwrap();
        for status in [404, 405, 501] {
            let reply = Response { status, ..Response::default() };
            let message = refusal(&reply, &url, CHECK_ADDRESS).message;
            assert!(message.ends_with("; check the address"), "{message}");
        }
    }
}
