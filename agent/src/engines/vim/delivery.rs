//! Delivers a result to the VIM, also to one that was restarted without its database and has forgotten the node.

use std::time::Duration;

use tracing::info;

use super::client::{Answer, IDEMPOTENCY_KEY, json, report_request};
use crate::api::JobResult;
use crate::http::client::GaveUp;
use crate::http::retry::{Failed, Why};
use crate::http::{Client, Request};
use crate::random;

/// Maximum number of times that a refused result is posted.
const MAX_REFUSED_RESULTS: u32 = 8;
/// The same for a bare VIM without that path.
const MAX_BARE_RESULTS: u32 = 2;

/// A result on its way to the VIM.
#[derive(Debug)]
pub struct Delivery {
    pub(super) result: JobResult,
    /// `Idempotency-Key`: the same for every post, so that a VIM that has the result already does not count it twice.
    key: String,
    /// True if the VIM only serves an Ignition config, and need not accept results.
    pub(super) is_bare: bool,
}

impl Delivery {
    pub(super) fn new(result: JobResult, is_bare: bool) -> Self {
        Self { result, key: random::uuid(), is_bare }
    }
}

impl Client {
    /// Posts the result of the node that the VIM calls `node_id`, retrying for at most `limit`. A VIM that has forgotten
    /// the node gets the report, if there is one, before it gets the result again. Returns the VIM's new id for the node, if it gave one then.
    ///
    /// # Errors
    /// [`GaveUp`]; the VIM does not know how the job ended.
    pub fn post_result(
        &self,
        node_id: &str,
        delivery: &Delivery,
        report: Option<&[u8]>,
        limit: Option<Duration>,
    ) -> Result<Option<String>, GaveUp> {
        let (mut new_id, mut is_forgotten, mut n_refused) = (None, false, 0);
        self.until_success("posting the result", limit, || {
            let report = report.filter(|_| is_forgotten);
            let failed = match self.try_result(node_id, delivery, report, &mut new_id) {
                Ok(()) => return Ok(Ok(new_id.take())),
                Err(failed) if failed.why == Why::Refused => failed,
                Err(failed) => return Err(failed),
            };
            n_refused += 1;
            is_forgotten = failed.status == Some(404);
            // A file server without this path will not gain it; other refusals may be corrected meanwhile.
            let has_no_path = matches!(failed.status, Some(404 | 405 | 410 | 501));
            let is_hopeless = delivery.is_bare && has_no_path;
            let most = if is_hopeless { MAX_BARE_RESULTS } else { MAX_REFUSED_RESULTS };
            if n_refused >= most { Ok(Err(GaveUp::Refused(failed))) } else { Err(failed) }
        })?
    }

    /// Posts the result once, after the report for a VIM that has forgotten the node.
    fn try_result(
        &self,
        node_id: &str,
        delivery: &Delivery,
        report: Option<&[u8]>,
        new_id: &mut Option<String>,
    ) -> Result<(), Failed> {
        if let Some(report) = report {
            info!("the VIM does not know this node; posting the report before the result");
            let url = self.url_of("/v1/reports")?;
            // The job is over: an instruction in this response is not for now.
            if let Answer::NotYet { node_id: Some(id), .. } =
                self.try_report(&url, &report_request(report), report)?
            {
                *new_id = Some(id).filter(|id| id != node_id);
            }
        }
        let node_id = new_id.as_deref().unwrap_or(node_id);
        let url = self.url_of(&format!("/v1/nodes/{node_id}/result"))?;
        let result = JobResult { node_id: node_id.into(), ..delivery.result.clone() };
        let request = Request::post(json(&result, "the result")?).farewell();
        self.deliver(&url, &request.with(IDEMPOTENCY_KEY, delivery.key.as_str()), node_id)
    }
}
