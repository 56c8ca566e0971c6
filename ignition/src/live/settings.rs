//! The settings of a live image.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use formats::digest::sha512;

use super::network::Keyfile;
use crate::{Checked, Refusal, Warning};

/// Text that has no `Display` and that `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Source of the agent in the live image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentBinary {
    /// The image already contains it; nothing is written.
    #[default]
    InImage,
    /// It is this file of the ISO that is booted, e.g. `/run-coreos-installer`.
    OnIso(String),
    /// Ignition fetches it, compressed with gzip.
    Fetched {
        /// URL of the compressed file, e.g. `http://[fd02:9a04::1]/run-coreos-installer.gz`.
        url: String,
        /// Digest of the file before compression, `sha512-` and 128 hex digits.
        hash: String,
    },
    /// The config contains it as a data URL. That exceeds the 256 KiB that an ISO reserves for Ignition, so it is for
    /// configs that are fetched with `ignition.config.url`.
    Embedded(Vec<u8>),
}

impl AgentBinary {
    /// An agent fetched from `url`, with the digest computed from the uncompressed file's `bytes`.
    pub fn fetched(url: impl Into<String>, bytes: &[u8]) -> Self {
        Self::Fetched { url: url.into(), hash: sha512(bytes) }
    }
}

/// A further file in the live image, e.g. a tool; also a link or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraFile {
    /// Absolute path in the live image, e.g. `/usr/local/bin/ethtool`.
    pub path: String,
    /// Permission bits, e.g. `0o555`; those of links and folders are the system's.
    pub mode: u32,
    /// Source of its content.
    pub source: FileSource,
}

/// Source of the content of an [`ExtraFile`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSource {
    /// The config contains it, compressed.
    Content(Vec<u8>),
    /// Ignition fetches it.
    Url {
        /// URL of the file.
        url: String,
        /// Digest of the uncompressed file, `sha512-` and 128 hex digits, or `sha256-` and 64; plain HTTP requires it.
        hash: Option<String>,
        /// True if the served file is compressed with gzip.
        is_gzip: bool,
    },
    /// It is a symbolic link with this target.
    Link(String),
    /// It is a folder.
    Folder,
}

/// A further systemd unit of the live image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name, e.g. `lldpd.service`.
    pub name: String,
    /// Its text; a unit with a section `[Install]` is enabled.
    pub text: String,
}

/// The minor version of the Ignition config's spec 3, from 0 to 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec(u8);

impl Spec {
    /// Spec 3.`minor`; `None` for a version that this program does not write.
    pub const fn new(minor: u8) -> Option<Self> {
        if minor <= 6 { Some(Self(minor)) } else { None }
    }

    /// True if the spec has `ignition.proxy`: since 3.1.0.
    pub const fn has_proxy(self) -> bool {
        self.0 >= 1
    }

    /// True if Butane's `certificate_authorities` has `inline`: since 1.1.0, spec 3.1.0.
    pub(super) const fn has_inline_ca(self) -> bool {
        self.0 >= 1
    }

    /// Version of the Ignition config, e.g. `3.3.0`.
    pub(super) fn ignition(self) -> String {
        format!("3.{}.0", self.0)
    }

    /// The version of Butane's variant fcos that makes this spec (Butane `docs/specs.md`); it skipped 1.3.0.
    pub(super) fn butane(self) -> String {
        format!("1.{}.0", if self.0 < 3 { self.0 } else { self.0 + 1 })
    }
}

/// Spec 3.3.0, the newest that Ignition 2.14 supports.
impl Default for Spec {
    fn default() -> Self {
        Self(3)
    }
}

/// The Ignition config of the system that a live image installs without a VIM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The agent fetches it.
    Url(String),
    /// The live image contains this text, unchanged, in a file that only root may read.
    Embedded(Secret),
}

impl Target {
    /// Checks the text that the live image contains; `Ok(None)` if it contains none.
    ///
    /// # Errors
    /// If Ignition would refuse the config.
    pub fn checked(&self) -> Result<Option<Checked>, Refusal> {
        match self {
            Self::Embedded(config) => crate::check(config.reveal().as_bytes()).map(Some),
            Self::Url(_) => Ok(None),
        }
    }
}

/// The kernel and the initramfs of the live image, for boot loaders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// URL of the kernel.
    pub kernel_url: String,
    /// URL of the initramfs.
    pub initramfs_url: String,
}

/// Everything in which live images differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// URL of the VIM, e.g. `https://vim.example:8443` or `http://[fd02:9a04::1%eth0]:8080`; `None` with
    /// [`Settings::install`].
    pub vim: Option<String>,
    /// The installation that the agent performs without a VIM; `None` with [`Settings::vim`].
    pub install: Option<Target>,
    /// Addresses of the VIM, written to `/etc/hosts` with [`Settings::vim_names`].
    pub vim_addresses: Vec<IpAddr>,
    /// Host names of the VIM; if empty, the host of [`Settings::vim`] unless that is an address.
    pub vim_names: Vec<String>,
    /// Source of the agent in the image.
    pub agent: AgentBinary,
    /// CA certificates that the agent and Ignition trust in addition to the system's, PEM.
    pub ca: Option<String>,
    /// Bearer token of the agent.
    pub token: Option<Secret>,
    /// Client certificate of the agent, PEM; requires [`Settings::client_key`].
    pub client_cert: Option<String>,
    /// Private key of the client certificate, PEM.
    pub client_key: Option<Secret>,
    /// Allows a VIM without TLS.
    pub allow_plain_http: bool,
    /// Further keys of the agent's configuration file with one value or several, e.g. `give_up_after` = `86400`; the
    /// agent refuses a file with unknown keys.
    pub agent_options: BTreeMap<String, Vec<String>>,
    /// Public SSH keys of user core, one line each.
    pub ssh_keys: Vec<String>,
    /// crypt(5) hash of the console password of core and root, e.g. `$6$…`; never the password.
    pub password_hash: Option<Secret>,
    /// Logs core in on every console and opens the emergency shell without a password.
    pub autologin: bool,
    /// Host name of the live system.
    pub hostname: Option<String>,
    /// Version of the Ignition config.
    pub spec: Spec,
    /// The unit of the VIM document to the letter: nobody logs in while the agent runs.
    pub hold_logins: bool,
    /// An Ignition config into which that of the live image is merged, as a child into its parent.
    pub merge: Option<Secret>,
    /// Further files.
    pub files: Vec<ExtraFile>,
    /// Further systemd units.
    pub units: Vec<Unit>,
    /// `NetworkManager` profiles of the live system; an install can copy them to the installed one.
    pub network: Vec<Keyfile>,
    /// URL of Packet's metadata, from which the live system makes further profiles.
    pub network_metadata: Option<String>,
    /// CA certificates that every program of the live system trusts, PEM; list them in [`Settings::ca`] too.
    pub mirror_ca: Option<String>,
    /// Proxy through which Ignition fetches, `http://` or `https://`; it may contain a password. Spec 3.0 has none.
    pub proxy: Option<Secret>,
    /// Hosts that Ignition reaches without [`Settings::proxy`].
    pub no_proxy: Vec<String>,
    /// Ignition platform of the live boot; `None` is `metal`.
    pub platform: Option<String>,
    /// URL of the Ignition config for `ignition.config.url`; `None` if it is embedded.
    pub config_url: Option<String>,
    /// Further kernel arguments, one argument each, e.g. `console=ttyS0,115200n8`.
    pub kernel_arguments: Vec<String>,
    /// URL of the root file system, for `coreos.live.rootfs_url`; `None` if it is in the initramfs.
    pub rootfs_url: Option<String>,
    /// The parts of the live image; only boot loaders need them.
    pub boot: Option<Boot>,
}

impl Settings {
    /// The warnings about [`Settings::merge`].
    pub fn merge_warnings(&self) -> Vec<Warning> {
        let checked = self.merge.as_ref().map(|config| crate::check(config.reveal().as_bytes()));
        checked.and_then(Result::ok).map_or_else(Vec::new, |checked| checked.warnings)
    }
}
