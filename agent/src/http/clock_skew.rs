//! The machine's clock compared with the VIM's: the header `Date` of its responses (RFC 9110 §6.6.1).

use std::time::{Duration, SystemTime};

use formats::time::rfc3339;
use probes::findings::{Finding, row};

/// The smallest difference that is a finding. A request may take minutes, and `Date` says when the response was made.
const NOTABLE: Duration = Duration::from_mins(5);

/// The finding of clocks that differ.
pub fn clock_skew(ours: SystemTime, theirs: SystemTime) -> Option<Finding> {
    let difference = theirs.duration_since(ours).unwrap_or_else(|error| error.duration());
    let row = row("os.clock_skew").filter(|_| difference >= NOTABLE)?;
    let (ours, theirs, seconds) = (rfc3339(ours), rfc3339(theirs), difference.as_secs());
    let evidence = format!(
        "this machine's clock shows {ours}, the server's {theirs}: they differ by {seconds} s"
    );
    Some(row.finding(None, evidence))
}
