//! Options of `install` that decide which findings prevent an install.

use clap::Args;

/// Heading of these options.
const BLOCKING: &str = "Faulty hardware";

/// Which findings prevent an install.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = BLOCKING)]
pub struct BlockOptions {
    /// Least severity of findings that prevents the install [default: critical]
    ///
    /// A blocked node posts the result, names the part on its console, reads the
    /// hardware again every minute, and goes on once the fault is gone or the VIM
    /// allows it. The `block_on` of an instruction replaces this severity.
    #[arg(long, value_name = "SEVERITY", value_parser = ["critical", "warning", "never"])]
    pub block_on: Option<String>,
    /// Findings that prevent it too, as `CODE` or `CODE@PART`
    ///
    /// `*` stands for any characters: `memory.ecc.*`, `disk.health.worn@sda`.
    /// `explain` lists the codes. The list of an instruction is added to this one.
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    pub block_also: Vec<String>,
    /// Findings that never prevent it, in the same form
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    pub block_except: Vec<String>,
    /// Show a QR code on the console of a blocked or failed node
    ///
    /// A phone without a network reads it as plain text: which machine it is, why
    /// nothing was installed, and the worst faults. A blocked node shows it again
    /// every minute.
    #[arg(long)]
    pub console_qr: bool,
}
