//! The configs that an Ignition config names by their addresses, fetched and checked before the disk is touched.

use std::time::Duration;

use ignition::{Checked, Pointer, Refusal};
use tracing::info;

use crate::http::Client;
use crate::secret;

/// Most configs that are fetched: one may name itself.
const MAX_POINTERS: usize = 16;
/// Time after which no further one is asked for.
const LIMIT: Duration = Duration::from_mins(1);

/// Checks a config and those that it names, of at most spec 3.`minor`. One that cannot be fetched now is a warning, since the first
/// boot may reach it: Ignition asks until it gets it.
///
/// # Errors
/// Ignition would refuse one of them.
pub(super) fn check(
    bytes: &[u8],
    minor: u64,
    client: &Client,
    warnings: &mut Vec<String>,
) -> Result<Checked, Refusal> {
    let (mut n_left, started) = (MAX_POINTERS, client.clock.now());
    ignition::check_with(bytes, &mut |pointer: &Pointer<'_>| {
        let is_http = ["http:", "https:"].iter().any(|scheme| pointer.url.starts_with(scheme));
        let is_late = client.clock.now().saturating_duration_since(started) > LIMIT;
        n_left = n_left.checked_sub(1).filter(|_| is_http && !is_late)?;
        info!("fetching the config that the Ignition config names at {}", pointer.key);
        match client.fetch_pointer(pointer, minor) {
            Ok(bytes) => {
                secret::conceal_config(&bytes);
                Some(bytes)
            }
            Err(why) => {
                let key = pointer.key;
                warnings.push(format!(
                    "Ignition config: the config at {key} was not checked, as it cannot be fetched now: {why}"
                ));
                None
            }
        }
    })
}
