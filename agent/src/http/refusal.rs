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

/// The failure of a request with an error status, with advice.
pub(crate) fn refusal(reply: &Response, url: &Url) -> Failed {
    let status = reply.status;
    let why = if is_transient(status) { Why::Unavailable } else { Why::Refused };
    let mut message = format!("{} responded {status}", url.shown());
    if let Ok(problem) = serde_json::from_slice::<Problem>(&reply.body) {
        let text = clean::text(&problem.message, 200);
        let code = clean::text(&problem.code, 64);
        message.extend([" ", &code, ": ", &text]);
    }
    let advice = match status {
        300..=399 => "; configure the address that it redirects to",
        401 | 403 => {
            "; give the agent a token (--token-file) or client certificate that the VIM accepts"
        }
        404 | 405 | 501 => "; check that this is the address of a VIM with API v1",
        400..=499 if why == Why::Refused => "; the VIM or the agent needs to be corrected",
        _ => "",
    };
    message.push_str(advice);
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
            let message = refusal(&reply, &url).message;
            assert!(message.contains("check that this is the address of a VIM"), "{message}");
        }
    }
}
