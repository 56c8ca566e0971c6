//! The pages: server-rendered, every value escaped, live by server-sent events.

use std::sync::Arc;

use crate::http::{Answer, Refusal};
use crate::lab::Lab;

/// Answers a GET that is not of the API, the shelf or the admin API; `None` when there is no such page.
pub(crate) fn answer(_lab: &Arc<Lab>, _parts: &[&str]) -> Result<Option<Answer>, Refusal> {
    Ok(None)
}
