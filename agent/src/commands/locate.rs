//! `locate`: makes a light blink, to help locate a part in the rack.

use anyhow::Context as _;

use crate::cli::LocateOptions;
use crate::exit_status::ExitStatus;
use crate::locate;
use crate::signals::Stop;

/// Makes the light blink and waits until it is off.
pub(super) fn locate(options: &LocateOptions) -> anyhow::Result<ExitStatus> {
    let stop = Stop::on_signals().context("catching signals")?;
    let result = locate::locate(&options.part, options.seconds, &stop);
    stop.release();
    result.context("locate").map(|()| ExitStatus::Done)
}
