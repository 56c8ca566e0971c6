//! Options of `live-config`, which describe another machine than the one it runs on.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::VimOptions;

/// What `live-config` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LiveFormat {
    /// Ignition JSON for the live image
    Ignition,
    /// The same as Butane YAML, for people
    Butane,
    /// Kernel arguments
    Kargs,
    /// An iPXE script
    Ipxe,
}

/// Options of `live-config`.
#[derive(Debug, Clone, Args)]
pub struct LiveConfigOptions {
    /// What to write
    #[arg(long, value_enum, default_value_t = LiveFormat::Ignition)]
    pub format: LiveFormat,
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Ignition config to install without a VIM
    ///
    /// A file's content goes into the live image, where only root may read it; a
    /// URL is fetched by the agent. Options of `install`, such as disk, are given
    /// with --agent-option.
    #[arg(long, value_name = "FILE|URL")]
    pub install: Option<String>,
    /// IP address of the VIM, for the live image's /etc/hosts
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = ip_address)]
    pub vim_address: Vec<IpAddr>,
    /// Host name for that address [default: the host in the VIM's URL]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub vim_name: Vec<String>,
    /// The agent for the live image, not compressed
    ///
    /// Without --binary-url the config contains the agent itself; that is too
    /// large for an ISO, but works for a config that is fetched by URL. Without
    /// --binary the image must already contain the agent.
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// URL of the agent, compressed with gzip
    #[arg(long, value_name = "URL", requires = "binary")]
    pub binary_url: Option<String>,
    /// Also write the compressed agent here, to be served at that URL
    #[arg(long, value_name = "FILE", requires = "binary")]
    pub binary_gz: Option<PathBuf>,
    /// Option for the agent in the live image, e.g. `log-level=debug`
    ///
    /// May be repeated, also with the same name for several values.
    #[arg(long, value_name = "NAME=VALUE")]
    pub agent_option: Vec<String>,
    /// Public SSH key that may log in as core
    #[arg(long, value_name = "KEY")]
    pub ssh_key: Vec<String>,
    /// File with the crypt(5) hash of core's and root's console password
    #[arg(long, value_name = "FILE")]
    pub password_hash_file: Option<PathBuf>,
    /// Log in core on every console without a password; for labs
    #[arg(long)]
    pub autologin: bool,
    /// Host name of the live system
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// Kernel argument to add, e.g. `console=ttyS0,115200n8`
    #[arg(long, value_name = "ARGUMENT")]
    pub append_karg: Vec<String>,
    /// URL at which this Ignition config will be served
    #[arg(long, value_name = "URL")]
    pub config_url: Option<String>,
    /// URL of the live image's kernel, for iPXE
    #[arg(long, value_name = "URL", requires = "initramfs_url")]
    pub kernel_url: Option<String>,
    /// URL of the live image's initramfs, for iPXE
    #[arg(long, value_name = "URL", requires = "kernel_url")]
    pub initramfs_url: Option<String>,
    /// URL of the live image's root file system
    #[arg(long, value_name = "URL", requires = "kernel_url")]
    pub rootfs_url: Option<String>,
}

fn ip_address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an IPv4 or IPv6 address, e.g. 192.0.2.1 or fd02::1")
}
