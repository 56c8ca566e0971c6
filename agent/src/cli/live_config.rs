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
    /// A PXELINUX configuration
    Pxelinux,
    /// A GRUB menu entry
    Grub,
}

/// Options of `live-config`.
#[derive(Debug, Clone, Args)]
pub struct LiveConfigOptions {
    /// What to write
    ///
    /// An ISO needs ignition, for `coreos-installer iso ignition embed`. Network
    /// boot needs the format of its boot loader, and ignition for --config-url.
    #[arg(long, value_enum, default_value_t = LiveFormat::Ignition)]
    pub format: LiveFormat,
    /// Version of the Ignition config, which the live image must support
    ///
    /// RHCOS 4.6 supports up to 3.1, RHCOS 4.7 up to 3.2.
    #[arg(long, value_name = "VERSION", default_value = "3.3",
          value_parser = ["3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6"])]
    pub spec: String,
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
    ///
    /// May be repeated: the first is that of --vim, others are further names.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub vim_name: Vec<String>,
    /// The agent for the live image, not compressed
    ///
    /// Without --binary-url the config contains the agent itself; that is too
    /// large for an ISO, but works for a config that is fetched by URL. Without
    /// --binary the image must already contain the agent: see --agent-in-image.
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// The agent is this file of the ISO, e.g. `/run-coreos-installer`
    ///
    /// For an ISO without a server; no ISO has room for the agent in its config.
    /// `xorriso -indev IN.iso -outdev OUT.iso -compliance iso_9660_level=1
    /// -boot_image any replay -map run-coreos-installer /run-coreos-installer`
    /// adds it. Not with the kernel argument coreos.liveiso.fromram.
    #[arg(long, value_name = "PATH", conflicts_with = "binary")]
    pub binary_on_iso: Option<String>,
    /// The image already contains the agent as /usr/local/bin/run-coreos-installer
    #[arg(long, conflicts_with_all = ["binary", "binary_on_iso"])]
    pub agent_in_image: bool,
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
    /// Let nobody log in while the agent runs, as the VIM document's unit does
    ///
    /// The unit is that of the document to the letter. Without it people can log in
    /// while the agent waits for its VIM.
    #[arg(long)]
    pub hold_logins: bool,
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
    /// Further file for the live image, e.g. `/usr/local/bin/ethtool=ethtool`
    ///
    /// SOURCE is a file, whose content goes into the config, or a URL, which
    /// Ignition fetches. A URL may be followed by `,sha512-…`, the digest of the
    /// file (over plain HTTP it must be), and a URL that ends in .gz is unpacked:
    /// the digest is that of the unpacked file. Either may be followed by a mode
    /// such as `,0555`; without it, a file keeps its own, and a URL gets 0755 in
    /// a bin directory and 0644 elsewhere.
    #[arg(long, value_name = "PATH=SOURCE")]
    pub file: Vec<String>,
    /// Further folder for the live image, e.g. `site=/opt/site`
    ///
    /// Every file below DIR, as Butane's `storage.trees`: a file that can be run gets
    /// 0755, another one 0644, links stay links. Give a file with a password a mode
    /// of its own, with --file.
    #[arg(long, value_name = "DIR=PATH")]
    pub tree: Vec<String>,
    /// Ignition config to merge with that of the live image
    ///
    /// E.g. `bootstrap-in-place-for-live-iso.ign` of `openshift-install`. Ignition's
    /// rules apply, and what would change the agent is refused. The result has the
    /// newer spec version of both.
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// Further systemd unit; enabled if it has a section `[Install]`
    #[arg(long, value_name = "FILE")]
    pub unit: Vec<PathBuf>,
    /// Network of the live system: a `NetworkManager` keyfile or nmstate YAML
    ///
    /// Of nmstate: Ethernet, bonds, VLANs, VXLANs, addresses, routes, name servers.
    /// An install with `copy_network` copies it to the installed system. Ignition
    /// runs before: if it must fetch something over this network, write the
    /// keyfiles with --network-dir and add them with
    /// `coreos-installer iso customize --network-keyfile`.
    #[arg(long, value_name = "FILE")]
    pub network: Vec<PathBuf>,
    /// Also write the network's keyfiles into this directory
    #[arg(long, value_name = "DIR", requires = "network")]
    pub network_dir: Option<PathBuf>,
    /// Metadata of Packet (Equinix Metal) to make network profiles of, when it boots
    ///
    /// E.g. `https://metadata.platformequinix.com/metadata`. Bond, public, private and
    /// IPv6 addresses become profiles in the live system, which an install with
    /// `copy_network` copies to the installed one.
    #[arg(long, value_name = "URL")]
    pub network_metadata: Option<String>,
    /// CA certificates (PEM) that the whole live system trusts, e.g. a mirror's
    #[arg(long, value_name = "FILE")]
    pub mirror_ca: Option<PathBuf>,
    /// Ignition platform of the live boot, e.g. packet [default: metal]
    ///
    /// That of the installed system is part of the VIM's instruction, or
    /// `--agent-option platform=…`.
    #[arg(long, value_name = "ID")]
    pub platform: Option<String>,
    /// Kernel argument to add, e.g. `console=ttyS0,115200n8`
    #[arg(long, value_name = "ARGUMENT")]
    pub append_karg: Vec<String>,
    /// URL at which this Ignition config will be served
    #[arg(long, value_name = "URL")]
    pub config_url: Option<String>,
    /// URL of the live image's kernel, for boot loaders
    #[arg(long, value_name = "URL", requires = "initramfs_url")]
    pub kernel_url: Option<String>,
    /// URL of the live image's initramfs, for boot loaders
    #[arg(long, value_name = "URL", requires = "kernel_url")]
    pub initramfs_url: Option<String>,
    /// URL of the live image's root file system
    #[arg(long, value_name = "URL")]
    pub rootfs_url: Option<String>,
}

fn ip_address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an IPv4 or IPv6 address, e.g. 192.0.2.1 or fd02::1")
}
