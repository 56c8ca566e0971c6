//! The checks of each setting of a live image on its own.
//!
//! Sources: crypt(5) for password hashes; Ignition `docs/supported-platforms.md` and
//! `docs/configuration-v3_3.md` for URLs and digests.

use std::net::IpAddr;

use super::LiveError;
use super::network::Keyfile;
use super::settings::{AgentBinary, FileSource, Settings, Target};
use super::ssh_key;
use crate::digest;
use crate::hostname::is_host_name;
use crate::text::{shown, shown_url};
use crate::url::url_form;

/// Keys of the agent's configuration file that other settings write.
const OWN_KEYS: &str =
    "vim ignition allow_plain_http ca_file token_file client_cert_file client_key_file";

/// Refuses a setting unless it is as expected.
pub(super) fn require(
    is_good: bool,
    setting: &'static str,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Result<(), LiveError> {
    if is_good { Ok(()) } else { refuse(setting, found, expected) }
}

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
            check_digest("agent.hash", hash, false)?;
        }
        if let AgentBinary::OnIso(path) = &self.agent {
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._/".contains(&b);
            let is_path =
                path.starts_with('/') && !path.ends_with('/') && path.bytes().all(is_plain);
            let expected = "a path on the ISO, e.g. /run-coreos-installer";
            require(is_path, "agent.iso_path", shown(path), expected)?;
        }
        self.check_additions()?;
        for (key, values) in &self.agent_options {
            let is_name = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let is_own = OWN_KEYS.split(' ').any(|own| own == key);
            let is_free = is_name && !is_own && !key.is_empty();
            let expected = "a key of the agent's configuration that has no setting of its own";
            require(is_free, "agent_options", shown(key), expected)?;
            for value in values {
                require(!value.contains('\0'), "agent_options", shown(value), "text without NUL")?;
            }
        }
        Ok(())
    }

    /// Checks the files, units and network profiles that users add.
    fn check_additions(&self) -> Result<(), LiveError> {
        for file in &self.files {
            let FileSource::Url { url, hash, .. } = &file.source else { continue };
            fetch_url("files.url", url)?;
            hash.iter().try_for_each(|hash| check_digest("files.hash", hash, true))?;
            let is_safe = hash.is_some() || url.starts_with("https://");
            let found = format!("{} without one", shown_url(url));
            let expected = "a digest (,sha512-…), as anyone on the way could replace the file";
            require(is_safe, "files", found, expected)?;
        }
        if let Some(url) = &self.network_metadata {
            self.check_tls("network_metadata", url)?;
            fetch_url("network_metadata", url)?;
        }
        if let Some(proxy) = &self.proxy {
            let is_http = matches!(url_form(proxy.reveal()).as_deref(), Ok("http" | "https"));
            let expected = "a URL with http:// or https://, the proxies that Ignition has";
            require(is_http, "proxy", "text of another form", expected)?;
        }
        for unit in &self.units {
            // The rest is checked with the finished config.
            let is_other = unit.name != "run-coreos-installer.service";
            require(is_other, "units", shown(&unit.name), "a unit other than the agent's own")?;
        }
        self.network.iter().try_for_each(|Keyfile { name, .. }| {
            let is_file_name = is_one_word(name) && !name.contains('/');
            require(is_file_name, "network", shown(name), "a file name without spaces")
        })
    }

    /// Checks the scheme of a URL that the agent uses, and returns the rest of it.
    fn check_tls<'u>(&self, setting: &'static str, url: &'u str) -> Result<&'u str, LiveError> {
        match url.split_once("://") {
            Some(("https", rest)) => Ok(rest),
            Some(("http", rest)) if self.allow_plain_http => Ok(rest),
            Some(("http", _)) => {
                refuse(setting, shown_url(url), "https, or plain HTTP with allow_plain_http")
            }
            _ => refuse(setting, shown_url(url), "a URL with https:// or http://"),
        }
    }

    fn check_vim(&self, vim: &str) -> Result<(), LiveError> {
        let rest = self.check_tls("vim", vim)?;
        let has_host = !rest.is_empty() && !rest.starts_with('/') && is_one_word(vim);
        require(has_host, "vim", shown_url(vim), "a URL with a host and without spaces")?;
        self.vim_names.iter().try_for_each(|name| check_host_name("vim_names", name))?;
        let has_name = self.vim_addresses.is_empty() || !self.all_vim_names().is_empty();
        require(has_name, "vim_names", "empty", "a name for the address of the VIM")
    }

    /// Checks the settings of an image without a VIM.
    fn check_install(&self, target: &Target) -> Result<(), LiveError> {
        for (setting, is_set) in [
            ("vim_addresses", !self.vim_addresses.is_empty()),
            ("vim_names", !self.vim_names.is_empty()),
            ("token", self.token.is_some()),
        ] {
            require(!is_set, setting, "set", "nothing, as there is no VIM")?;
        }
        match target {
            Target::Embedded(_) => target.checked().map(|_| ()).map_err(LiveError::Target),
            Target::Url(url) => {
                self.check_tls("install", url)?;
                fetch_url("install", url)
            }
        }
    }

    fn check_credentials(&self) -> Result<(), LiveError> {
        let pem = "PEM, which contains -----BEGIN";
        if let Some(ca) = &self.ca {
            let is_pem = ca.contains("-----BEGIN CERTIFICATE-----");
            require(is_pem, "ca", "text without a certificate", pem)?;
        }
        match (&self.client_cert, &self.client_key) {
            (None, None) => {}
            (Some(cert), Some(key)) => {
                let is_pem = cert.contains("-----BEGIN ") && key.reveal().contains("-----BEGIN ");
                require(is_pem, "client_cert or client_key", "text that is not PEM", pem)?;
            }
            _ => refuse("client_cert and client_key", "only one of them", "both or neither")?,
        }
        let is_word = self.token.as_ref().is_none_or(|token| is_one_word(token.reveal()));
        let expected = "one word of printable ASCII characters";
        require(is_word, "token", "text of another form", expected)
    }

    fn check_login(&self) -> Result<(), LiveError> {
        for key in &self.ssh_keys {
            if let Err(found) = ssh_key::check(key) {
                let expected = match found {
                    "a private key" => "the public key, which is in the file .pub",
                    "the path of a file" => "the content of that file, as \"$(cat FILE.pub)\"",
                    _ => "a whole public key on one line, e.g. ssh-ed25519 AAAA… name",
                };
                return refuse("ssh_keys", found, expected);
            }
        }
        let Some(hash) = &self.password_hash else { return Ok(()) };
        let hash = hash.reveal();
        let is_hash = hash.starts_with('$') && hash.matches('$').count() >= 3;
        let is_hash = is_hash && is_one_word(hash) && !hash.contains(':');
        let expected = "a crypt(5) hash such as $6$…, as made by mkpasswd; never a password";
        require(is_hash, "password_hash", "text of another form", expected)
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
    let expected = "a host name of letters, digits, - and .";
    require(is_host_name(name), setting, shown(name), expected)
}

fn check_digest(setting: &'static str, hash: &str, sha256_allowed: bool) -> Result<(), LiveError> {
    digest::check_form(hash, sha256_allowed)
        .or_else(|expected| refuse(setting, shown(hash), expected))
}
