//! The command line of the lab VIM: arguments only.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::faults::Fault;

/// Examples, paths and faults, shown below the options.
const EXAMPLES: &str = include_str!("cli.help");

/// A small real VIM: receives reports, sends instructions, shows what nodes do.
#[derive(Debug, Parser)]
#[command(name = "lab-vim", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Options {
    /// Address to serve plain HTTP on; port 0 chooses a free one. May be repeated.
    #[arg(long, value_name = "ADDR", default_value = "[::]:8080")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address to serve HTTPS on, with a certificate from the lab VIM's own CA. May be repeated.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen_https: Vec<SocketAddr>,
    /// Folder for ca.pem, client.pem and client-key.pem; the CA's key is kept there.
    #[arg(long, value_name = "DIR", default_value = "lab-vim-tls")]
    pub(crate) tls_dir: PathBuf,
    /// One more name or address for the certificate. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Serve /v1 only to clients with a certificate from the lab VIM's own CA (client.pem).
    #[arg(long)]
    pub(crate) require_client_certificate: bool,
    /// Serve /v1 only to clients with the bearer token in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Sign answers for nodes with --vim-key, with this Ed25519 key (PEM); made if absent.
    #[arg(long, value_name = "FILE")]
    pub(crate) sign_key: Option<PathBuf>,
    /// Database file.
    #[arg(long, value_name = "FILE", default_value = ":memory:")]
    pub(crate) db: PathBuf,
    /// Instruction (JSON) for every node without one of its own.
    #[arg(long, value_name = "FILE")]
    pub(crate) instruction: Option<PathBuf>,
    /// Ignition config for every node without one of its own.
    #[arg(long, value_name = "FILE")]
    pub(crate) ignition: Option<PathBuf>,
    /// When and how a report is answered.
    #[arg(long, value_enum, default_value = "direct")]
    pub(crate) answer: Mode,
    /// `--answer later`: how often a node must ask again.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) polls: u32,
    /// Retry-After of a 202: seconds, or `date:SECONDS` for the header's date form.
    #[arg(long, value_name = "S", default_value = "2")]
    pub(crate) retry_after: String,
    /// Answer to an installed node that reports again, until its instruction changes.
    #[arg(long, value_enum, default_value = "reboot")]
    pub(crate) after_install: AfterInstall,
    /// Serve this folder under /files/.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Serve one file as /files/NAME. May be repeated.
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) file: Vec<String>,
    /// Serve an image as /files/NAME, and its signature (.sig) from the same folder if there is one.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Serve the agent under /ocp/, compressed with gzip.
    #[arg(long, value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,
    /// Serve this folder under /boot/ to machines that boot over the network.
    ///
    /// A machine boots live-MAC.ipxe, live-SERIAL.ipxe or live.ipxe, and its own
    /// disk once it was installed.
    #[arg(long, value_name = "DIR")]
    pub(crate) boot: Option<PathBuf>,
    /// Value of {{base}} [default: the node's Host header]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Fail on purpose, see below. May be repeated.
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<Fault>,
    /// Largest request body, before and after gzip.
    #[arg(long, value_name = "N", default_value = "33554432")]
    pub(crate) max_body_bytes: usize,
    /// Let other machines use /lab.
    #[arg(long)]
    pub(crate) open_admin: bool,
    /// Also write the line on stdout to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
}

/// When and how a report is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// At once.
    Direct,
    /// First 202, then the instruction when the node has asked often enough.
    Later,
    /// Always 202.
    Never,
    /// The Ignition config alone.
    Bare,
}

/// Answer to an installed node that reports again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterInstall {
    /// Reboot, so that a boot loop does not wipe the disk again.
    Reboot,
    /// The same as before.
    Install,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_its_help_fits_80_columns() {
        let mut command = Options::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, Vec::<&str>::new());
    }
}
