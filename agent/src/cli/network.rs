//! Options of `network`.

use std::path::PathBuf;

use clap::Args;

/// Where the metadata is, and where the profiles go.
#[derive(Debug, Clone, Args)]
pub struct NetworkOptions {
    /// Address of Packet's (Equinix Metal's) metadata
    ///
    /// E.g. `https://metadata.platformequinix.com/metadata`. It is tried for five
    /// minutes.
    #[arg(long, value_name = "URL")]
    pub metadata: String,
    /// Allow plain HTTP
    #[arg(long)]
    pub allow_plain_http: bool,
    /// Directory for the profiles; the network that is up does not change
    #[arg(long, value_name = "DIR", default_value = "/etc/NetworkManager/system-connections")]
    pub output: PathBuf,
}
