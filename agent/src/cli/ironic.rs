//! Options of the back ends for Ironic, and the choice among all back ends.

use clap::{Args, ValueEnum};

use super::{SourceOptions, VimOptions};

/// Heading of these options.
const IRONIC: &str = "Ironic";

/// Who orders installs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// A VIM with VIM API v1
    #[default]
    Vim,
    /// Ironic, which only inspects this machine
    Ironic,
    /// Ironic, as the node's agent: inspects, cleans, installs
    IronicAgent,
    /// ironic-inspector, which only inspects this machine
    Inspector,
    /// assisted-service, as the agent of a host
    Assisted,
}

/// Who gets a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Recipient {
    /// A VIM with VIM API v1
    #[default]
    Vim,
    /// Ironic, as inspection data
    Ironic,
    /// ironic-inspector, as the data of its ramdisk
    Inspector,
}

/// Options of `install` with a back end for Ironic.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = IRONIC)]
pub struct IronicOptions {
    /// Who orders the install; for Ironic --vim is the address of its API
    ///
    /// With `ironic-agent` this program takes the place of ironic-python-agent:
    /// the steps `install_coreos` and `erase_devices_metadata`. --token-file then
    /// holds the agent token, if the image brings one. Several addresses of
    /// the API are separated by commas.
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = Backend::Vim)]
    pub backend: Backend,
    /// Address for Ironic's commands [default: this machine's, port 9999]
    ///
    /// `https://HOST:PORT`, where Ironic reaches this agent, e.g. through a port
    /// forwarding. The default is the address from which Ironic is reached.
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// Port on which commands are expected
    #[arg(long, value_name = "PORT", default_value_t = crate::engines::ironic::PORT)]
    pub agent_port: u16,
    /// Disk that cleaning erases, by path or hints such as `serial=S1`
    ///
    /// May be repeated. The disk of the node's root device hints is erased, too.
    /// Without either, cleaning fails: a node is never reported as clean if
    /// nothing was erased.
    #[arg(long, value_name = "DISK")]
    pub clean_disk: Vec<String>,
}

/// Options of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportOptions {
    /// Who gets the report
    #[arg(long, value_enum, value_name = "RECIPIENT", default_value_t = Recipient::Vim)]
    pub to: Recipient,
    /// Address of the recipient, instead of --vim
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
}
