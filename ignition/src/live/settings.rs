//! The settings of a live image, and the checks of each setting.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::LiveError;
use crate::check::url_form;
use crate::digest;
use crate::text::{shown, shown_url};

/// Text that has no `Display` and that `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
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

/// Where the live image gets the agent from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentBinary {
    /// The image already contains it; nothing is written.
    #[default]
    InImage,
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
    #[must_use]
    pub fn fetched(url: impl Into<String>, bytes: &[u8]) -> Self {
        Self::Fetched { url: url.into(), hash: digest::sha512(bytes) }
    }
}

/// A further file that Ignition fetches into the live image, e.g. a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Absolute path in the live image, e.g. `/usr/local/bin/ethtool`.
    pub path: String,
    /// URL of the file.
    pub url: String,
    /// Digest of the uncompressed file, `sha512-` and 128 hex digits, or `sha256-` and 64.
    pub hash: String,
    /// Whether the served file is compressed with gzip.
    pub is_gzip: bool,
    /// Permission bits, e.g. `0o555`.
    pub mode: u32,
}

/// The Ignition config of the system that a live image installs without a VIM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The agent fetches it.
    Url(String),
    /// The live image contains this text, unchanged, in a file that only root may read.
    Embedded(Secret),
}

/// The parts of the live image, for iPXE.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// URL of the kernel.
    pub kernel_url: String,
    /// URL of the initramfs.
    pub initramfs_url: String,
    /// URL of the root file system, for `coreos.live.rootfs_url`; `None` if it is in the initramfs.
    pub rootfs_url: Option<String>,
}

/// Everything in which live images differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// URL of the VIM, e.g. `https://vim.example:8443` or `http://[fd02:9a04::1%eth0]:8080`; `None` with
    /// [`Settings::install`].
    pub vim: Option<String>,
    /// What the agent installs without a VIM; `None` with [`Settings::vim`].
    pub install: Option<Target>,
    /// Addresses of the VIM, written to `/etc/hosts` with [`Settings::vim_names`].
    pub vim_addresses: Vec<IpAddr>,
    /// Host names of the VIM; if empty, the host of [`Settings::vim`] unless that is an address.
    pub vim_names: Vec<String>,
    /// Where the image gets the agent from.
    pub agent: AgentBinary,
    /// CA certificates that the agent and Ignition trust in addition to the system's, PEM.
    pub ca: Option<String>,
    /// Bearer token of the agent.
    pub token: Option<Secret>,
    /// Client certificate of the agent, PEM; requires [`Settings::client_key`].
    pub client_cert: Option<String>,
    /// Private key of the client certificate, PEM.
    pub client_key: Option<Secret>,
    /// Ed25519 public key; if set, only responses signed with that key are obeyed.
    pub vim_key: Option<String>,
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
    /// Further files that Ignition fetches.
    pub downloads: Vec<Download>,
    /// URL of the Ignition config for `ignition.config.url`; `None` if it is embedded.
    pub config_url: Option<String>,
    /// Further kernel arguments, one argument each, e.g. `console=ttyS0,115200n8`.
    pub kernel_arguments: Vec<String>,
    /// The parts of the live image for iPXE; only [`super::ipxe_script`] needs them.
    pub boot: Option<Boot>,
}

/// Keys of the agent's configuration file that other settings write.
const OWN_KEYS: [&str; 8] = [
    "vim",
    "ignition",
    "allow_plain_http",
    "ca_file",
    "token_file",
    "client_cert_file",
    "client_key_file",
    "vim_key",
];

pub(super) fn refuse<T>(
    setting: &'static str,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Result<T, LiveError> {
    Err(LiveError::Setting { setting, found: found.into(), expected: expected.into() })
}

impl Settings {
    /// Checks each setting on its own.
    pub(super) fn check(&self) -> Result<(), LiveError> {
        match (&self.vim, &self.install) {
            (Some(vim), None) => self.check_vim(vim)?,
            (None, Some(target)) => self.check_install(target)?,
            (vim, _) => {
                let found = if vim.is_some() { "both" } else { "neither" };
                return refuse("vim and install", found, "one of them");
            }
        }
        self.check_credentials()?;
        self.check_login()?;
        self.hostname.iter().try_for_each(|name| check_host_name("hostname", name))?;
        if let AgentBinary::Fetched { url, hash } = &self.agent {
            fetch_url("agent.url", url)?;
            if let Err(expected) = digest::check_form(hash, false) {
                return refuse("agent.hash", shown(hash), expected);
            }
        }
        for download in &self.downloads {
            fetch_url("downloads.url", &download.url)?;
            if let Err(expected) = digest::check_form(&download.hash, true) {
                return refuse("downloads.hash", shown(&download.hash), expected);
            }
        }
        for (key, values) in &self.agent_options {
            if OWN_KEYS.contains(&key.as_str()) || !is_name(key) {
                let expected = "a key of the agent's configuration that has no setting of its own";
                return refuse("agent_options", shown(key), expected);
            }
            if let Some(value) = values.iter().find(|value| value.contains('\0')) {
                return refuse("agent_options", shown(value), "text without NUL");
            }
        }
        Ok(())
    }

    fn check_vim(&self, vim: &str) -> Result<(), LiveError> {
        let rest = match vim.split_once("://") {
            Some(("https", rest)) => rest,
            Some(("http", rest)) if self.allow_plain_http => rest,
            Some(("http", _)) => {
                let expected = "https, or plain HTTP with allow_plain_http";
                return refuse("vim", shown_url(vim), expected);
            }
            _ => return refuse("vim", shown_url(vim), "a URL with https:// or http://"),
        };
        if rest.is_empty() || rest.starts_with('/') || !is_one_word(vim) {
            return refuse("vim", shown_url(vim), "a URL with a host and without spaces");
        }
        self.vim_names.iter().try_for_each(|name| check_host_name("vim_names", name))?;
        if !self.vim_addresses.is_empty() && self.all_vim_names().is_empty() {
            return refuse("vim_names", "empty", "a name for the address of the VIM");
        }
        Ok(())
    }

    /// Checks the settings of an image without a VIM.
    fn check_install(&self, target: &Target) -> Result<(), LiveError> {
        for (setting, is_set) in [
            ("vim_addresses", !self.vim_addresses.is_empty()),
            ("vim_names", !self.vim_names.is_empty()),
            ("token", self.token.is_some()),
            ("vim_key", self.vim_key.is_some()),
        ] {
            if is_set {
                return refuse(setting, "set", "nothing, as there is no VIM");
            }
        }
        match target {
            Target::Embedded(config) => {
                crate::check(config.reveal().as_bytes()).map(|_| ()).map_err(LiveError::Target)
            }
            Target::Url(url) => match url.split_once("://") {
                Some(("https", _)) => fetch_url("install", url),
                Some(("http", _)) if self.allow_plain_http => fetch_url("install", url),
                Some(("http", _)) => {
                    let expected = "https, or plain HTTP with allow_plain_http";
                    refuse("install", shown_url(url), expected)
                }
                _ => refuse("install", shown_url(url), "a URL with https:// or http://"),
            },
        }
    }

    fn check_credentials(&self) -> Result<(), LiveError> {
        let pem = "PEM, which contains -----BEGIN";
        if let Some(ca) = &self.ca
            && !ca.contains("-----BEGIN CERTIFICATE-----")
        {
            return refuse("ca", "text without a certificate", pem);
        }
        match (&self.client_cert, &self.client_key) {
            (None, None) => {}
            (Some(cert), Some(key)) => {
                if !cert.contains("-----BEGIN ") || !key.reveal().contains("-----BEGIN ") {
                    return refuse("client_cert or client_key", "text that is not PEM", pem);
                }
            }
            _ => {
                return refuse("client_cert and client_key", "only one of them", "both or neither");
            }
        }
        if let Some(token) = &self.token
            && !is_one_word(token.reveal())
        {
            let expected = "one word of printable ASCII characters";
            return refuse("token", "text of another form", expected);
        }
        match &self.vim_key {
            Some(key) if key.trim().is_empty() || key.contains('\0') => {
                refuse("vim_key", shown(key), "an Ed25519 public key")
            }
            _ => Ok(()),
        }
    }

    fn check_login(&self) -> Result<(), LiveError> {
        for key in &self.ssh_keys {
            let is_known = ["ssh-", "ecdsa-", "sk-"].iter().any(|kind| key.contains(kind));
            if !is_known || !key.contains(' ') || key.contains(char::is_control) {
                let expected = "a public key on one line, e.g. ssh-ed25519 AAAA… name";
                return refuse("ssh_keys", shown(key), expected);
            }
        }
        let Some(hash) = &self.password_hash else { return Ok(()) };
        let hash = hash.reveal();
        let is_hash = hash.starts_with('$') && hash.matches('$').count() >= 3;
        if !is_hash || !is_one_word(hash) || hash.contains(':') {
            let expected = "a crypt(5) hash such as $6$…, as made by mkpasswd; never a password";
            return refuse("password_hash", "text of another form", expected);
        }
        Ok(())
    }

    /// The names of the VIM for `/etc/hosts`.
    pub(super) fn all_vim_names(&self) -> Vec<String> {
        if !self.vim_names.is_empty() {
            return self.vim_names.clone();
        }
        let vim = self.vim.as_deref().unwrap_or_default();
        let rest = vim.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host_port = authority.rsplit('@').next().unwrap_or_default();
        let host = host_port.split(':').next().unwrap_or_default();
        let is_name = is_host_name(host) && host.parse::<IpAddr>().is_err();
        if is_name { vec![host.to_owned()] } else { Vec::new() }
    }
}

/// Checks a URL that Ignition or iPXE fetches.
pub(super) fn fetch_url(setting: &'static str, url: &str) -> Result<(), LiveError> {
    match url_form(url).as_deref() {
        Ok("http" | "https" | "tftp") if is_one_word(url) && url.contains("://") => Ok(()),
        Ok(_) => refuse(setting, shown_url(url), "a URL with http, https or tftp, without spaces"),
        Err(expected) => refuse(setting, shown_url(url), expected.to_owned()),
    }
}

/// One or more printable ASCII characters without a space or a double quote.
pub(super) fn is_one_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"')
}

fn check_host_name(setting: &'static str, name: &str) -> Result<(), LiveError> {
    if is_host_name(name) {
        return Ok(());
    }
    refuse(setting, shown(name), "a host name of letters, digits, - and .")
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// RFC 1123 §2.1, as far as characters and lengths go.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
