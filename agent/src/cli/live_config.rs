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
    /// Address of the VIM for the live image's /etc/hosts
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = ip_address)]
    pub vim_address: Vec<IpAddr>,
    /// Name that goes with the address [default: the host of the VIM's URL]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub vim_name: Vec<String>,
    /// The agent to carry, not compressed; its SHA-512 is computed
    ///
    /// Without --binary-url it is put into the config itself, which is too
    /// large for an ISO and right for a config that is fetched by URL. Without
    /// --binary the image is taken to hold the agent already.
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Where the live image fetches the agent, compressed with gzip
    #[arg(long, value_name = "URL", requires = "binary")]
    pub binary_url: Option<String>,
    /// Also write the agent compressed with gzip, to be served at that URL
    #[arg(long, value_name = "FILE", requires = "binary")]
    pub binary_gz: Option<PathBuf>,
    /// Option of the agent in the live image, e.g. `log-level=debug`
    #[arg(long, value_name = "NAME=VALUE")]
    pub agent_option: Vec<String>,
    /// Public SSH key that may log in as core on the live image
    #[arg(long, value_name = "KEY")]
    pub ssh_key: Vec<String>,
    /// File with the crypt(5) hash of the console password of core and root
    #[arg(long, value_name = "FILE")]
    pub password_hash_file: Option<PathBuf>,
    /// Log core in on every console without a password; for labs
    #[arg(long)]
    pub autologin: bool,
    /// Host name of the live system
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// Kernel argument to add, e.g. `console=ttyS0,115200n8`
    #[arg(long, value_name = "ARGUMENT")]
    pub append_karg: Vec<String>,
    /// Where the live image fetches the Ignition that is written here
    #[arg(long, value_name = "URL")]
    pub config_url: Option<String>,
    /// Where iPXE finds the live image's kernel
    #[arg(long, value_name = "URL", requires = "initramfs_url")]
    pub kernel_url: Option<String>,
    /// Where iPXE finds the live image's initramfs
    #[arg(long, value_name = "URL", requires = "kernel_url")]
    pub initramfs_url: Option<String>,
    /// Where the initramfs finds the live image's root file system
    #[arg(long, value_name = "URL", requires = "kernel_url")]
    pub rootfs_url: Option<String>,
}

fn ip_address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an IPv4 or IPv6 address, e.g. 192.0.2.1 or fd02::1")
}
