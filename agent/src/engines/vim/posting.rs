//! Results on their way to the VIM: one that it does not accept now is posted again before the next request.

use std::time::Duration;

use tracing::{error, info, warn};

use super::delivery::Delivery;
use super::engine::Vim;
use crate::api::{JobResult, is_node_id};
use crate::http::client::GaveUp;

impl Vim<'_> {
    /// Posts a result for at most `limit`, and keeps it if the VIM cannot accept it now.
    pub(super) fn post(
        &mut self,
        result: &JobResult,
        limit: Option<Duration>,
    ) -> Result<(), GaveUp> {
        self.unposted = Some(Delivery::new(result.clone(), self.is_bare));
        self.post_unposted(limit)
    }

    /// Posts a result that the VIM could not accept before, if there is one.
    pub(super) fn post_unposted(&mut self, limit: Option<Duration>) -> Result<(), GaveUp> {
        let Some(delivery) = &self.unposted else { return Ok(()) };
        let report = (!delivery.is_bare).then_some(self.node.collected.report.as_slice());
        let posted = self.client.post_result(&self.node.id, delivery, report, limit);
        if matches!(posted, Ok(_) | Err(GaveUp::Refused(_))) {
            self.unposted = None;
        }
        if let Some(node_id) = posted? {
            self.accept_id(Some(&node_id), true);
            self.open_events();
            // The VIM has forgotten the neighbours too.
            self.supplemented = None;
        }
        Ok(())
    }

    /// Adopts the id that the VIM gives the node when it accepts the report. Any later one is another node's.
    pub(super) fn accept_id(&mut self, node_id: Option<&str>, has_just_reported: bool) {
        let Some(node_id) = node_id.filter(|id| is_node_id(id) && *id != self.node.id) else {
            return;
        };
        if has_just_reported {
            info!("the VIM uses another id for this node: {node_id}");
            self.node.id = node_id.into();
        } else {
            warn!("the VIM's response names another node, {node_id}; ignoring that");
        }
    }

    /// Posts an earlier result once, if the VIM does not have it yet; called whenever the VIM may be back.
    pub(super) fn post_earlier_result(&mut self) {
        if self.unposted.is_none() {
            return;
        }
        match self.post_unposted(Some(Duration::ZERO)) {
            Ok(()) => info!("result posted"),
            Err(gave_up) => error!("the earlier result could not be posted: {gave_up}"),
        }
    }

    /// Makes a new result mention an earlier one that the VIM will not get any more.
    pub(super) fn replace_unposted(&mut self) {
        let Some(Delivery { result, .. }) = self.unposted.take() else { return };
        let request = result.request_id.as_deref().unwrap_or("without a request_id");
        let code = result.code.as_deref().unwrap_or("no code");
        self.node.warnings.push(format!(
            "an earlier result could not be posted: request {request} ended with {code}: {}",
            result.message
        ));
    }
}
