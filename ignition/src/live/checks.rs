//! The checks of each setting of a live image on its own.
//!
//! Sources: crypt(5) for password hashes; Ignition `docs/supported-platforms.md` and
//! `docs/configuration-v3_3.md` for URLs and digests.

use std::net::IpAddr;

use super::LiveError;
use super::settings::{AgentBinary, FileSource, Settings, Target};
use super::ssh_key;
use crate::digest;
use crate::hostname::is_host_name;
use crate::text::{shown, shown_url};
use crate::url::url_form;

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
        if let AgentBinary::OnIso(path) = &self.agent {
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._/".contains(&b);
            if !path.starts_with('/') || path.ends_with('/') || !path.bytes().all(is_plain) {
                return refuse(
                    "agent.iso_path",
                    shown(path),
                    "a path on the ISO, e.g. /run-coreos-installer",
                );
            }
        }
        self.check_additions()?;
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

    /// Checks the files, units and network profiles that users add.
    fn check_additions(&self) -> Result<(), LiveError> {
        for file in &self.files {
            if let FileSource::Url { url, hash, .. } = &file.source {
                fetch_url("files.url", url)?;
                match hash {
                    Some(hash) => {
                        if let Err(expected) = digest::check_form(hash, true) {
                            return refuse("files.hash", shown(hash), expected);
                        }
                    }
                    None if url.starts_with("https://") => {}
                    None => {
                        let expected =
                            "a digest (,sha512-…), as anyone on the way could replace the file";
                        return refuse(
                            "files",
                            format!("{} without one", shown_url(url)),
                            expected,
                        );
                    }
                }
            }
        }
        if let Some(url) = &self.network_metadata {
            self.check_tls("network_metadata", url)?;
            fetch_url("network_metadata", url)?;
        }
        if let Some(proxy) = &self.proxy
            && !matches!(url_form(proxy.reveal()).as_deref(), Ok("http" | "https"))
        {
            let expected = "a URL with http:// or https://, the proxies that Ignition has";
            return refuse("proxy", "text of another form", expected);
        }
        for unit in &self.units {
            // The rest is checked with the finished config.
            if unit.name == "run-coreos-installer.service" {
                return refuse("units", shown(&unit.name), "a unit other than the agent's own");
            }
        }
        let is_file_name = |name: &str| is_one_word(name) && !name.contains('/');
        match self.network.iter().find(|keyfile| !is_file_name(&keyfile.name)) {
            Some(keyfile) => refuse("network", shown(&keyfile.name), "a file name without spaces"),
            None => Ok(()),
        }
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
            Target::Embedded(_) => target.checked().map(|_| ()).map_err(LiveError::Target),
            Target::Url(url) => {
                self.check_tls("install", url)?;
                fetch_url("install", url)
            }
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
