//! Options of `locate`.

use clap::Args;

use super::seconds;

/// Which light blinks, and how long.
#[derive(Debug, Clone, Args)]
pub struct LocateOptions {
    /// `chassis`, a network port such as eno1, or a disk
    ///
    /// A disk is named by its device, serial number or WWN. Its light is that of
    /// a slot in an enclosure, or of a PCI Express port (NPEM); that of the
    /// chassis needs a BMC. All of them need root. Nothing on a disk is changed.
    #[arg(value_name = "PART")]
    pub part: String,
    /// How long the light blinks, in seconds; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds::<1, 3600>)]
    pub seconds: u64,
}
