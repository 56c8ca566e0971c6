//! Addresses of servers: `http` and `https`, with IPv6 literals that may name an interface.
//!
//! An IPv6 literal with a zone, `http://[fe80::1%eth0]:8080` or RFC 6874's `%25eth0`, is split into an
//! address without the zone, which goes into the request, and the zone, which goes into the socket.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, PoisonError};

use formats::text::is_number;

use anyhow::{anyhow, bail, ensure};
use ureq::http::Uri;
use ureq::http::uri::{Authority, Scheme};

/// Longest address, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Refuses the address of a proxy of another kind, or whose user or password contains a character that ends a host. Most
/// programs would then connect to a part of the password, and look up its name.
///
/// # Errors
/// The user or password of `url` contains `/`, `?`, `#` or `@`; its scheme is neither `http` nor `https`.
pub fn check_proxy(url: &str) -> anyhow::Result<()> {
    let address = url.split_once("://").map_or(url, |(_, rest)| rest);
    let user = address.rsplit_once('@').map_or("", |(user, _)| user);
    if let Some(found) = user.chars().find(|c| "/?#@".contains(*c)) {
        let code = u32::from(found);
        bail!(
            "the user or password of the proxy (--proxy, or https_proxy, all_proxy or http_proxy) contains {found}, \
             expected it percent-encoded: %{code:02X}"
        );
    }
    let scheme = url.split_once("://").map_or("http", |(scheme, _)| scheme).trim();
    let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let shown =
        if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) { scheme } else { "another" };
    ensure!(
        is_http,
        "the proxy (--proxy, or https_proxy, all_proxy or http_proxy) has the scheme {shown:.16}, expected http or https: this \
         program does not speak SOCKS"
    );
    Ok(())
}

/// Zones of the IPv6 literals in all addresses parsed so far.
#[derive(Debug, Clone, Default)]
pub struct Zones(Arc<Mutex<BTreeMap<Ipv6Addr, String>>>);

impl Zones {
    /// The zone that an address was given with.
    pub fn zone_of(&self, address: &Ipv6Addr) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned()
    }

    /// Stores the zone of an address. The first one stays: that of the VIM, which the configuration names.
    ///
    /// # Errors
    /// The zone that the address has already, if it differs.
    fn remember(&self, address: Ipv6Addr, zone: &str) -> Result<(), String> {
        let mut zones = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = zones.entry(address).or_insert_with(|| zone.into());
        if known == zone { Ok(()) } else { Err(known.clone()) }
    }
}

/// An `http` or `https` address as a request uses it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`.
    scheme: Scheme,
    /// Host and port, without a user and without a zone.
    authority: Authority,
    /// Path and query, beginning with `/`, or empty.
    path: String,
}

impl Url {
    /// Parses an address and stores its zone, if it has one, in `zones`.
    ///
    /// # Errors
    /// Not `http` or `https`, no host, a user or password, whitespace or a control character, or a malformed IPv6
    /// literal.
    pub fn parse(text: &str, zones: &Zones) -> anyhow::Result<Self> {
        // Anything else may be a secret in the wrong place, such as a whole Ignition config: it is not quoted.
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        ensure!(is_http, "the address does not begin with http:// or https://");
        ensure!(text.len() <= MAX_URL_BYTES, "the address has more than {MAX_URL_BYTES} bytes");
        ensure!(
            !text.chars().any(|c| c.is_whitespace() || c.is_control()),
            "the address contains a space or control character"
        );
        let shown: String = crate::secret::redact(text).chars().take(200).collect();
        let scheme = Scheme::try_from(scheme.to_ascii_lowercase().as_str())?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        ensure!(!authority.contains('@'), "the address {shown:?} contains a user, expected none");
        ensure!(!authority.is_empty(), "the address {shown:?} has no host");
        let authority = without_zone(authority, zones)
            .map_err(|error| anyhow!("the address {shown:?} has {error}"))?;
        ensure!(
            has_possible_port(text),
            "the port of the address {shown:?} is not from 1 to 65535"
        );
        let malformed = || {
            anyhow!("the address {shown:?} is malformed, expected e.g. https://vim.example:8443")
        };
        let authority = Authority::try_from(authority).map_err(|_| malformed())?;
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        let url = Self { scheme, authority, path };
        url.is_valid().then_some(url).ok_or_else(malformed)
    }

    fn is_valid(&self) -> bool {
        Uri::try_from(self.to_string()).is_ok()
    }

    /// True if it is `https`.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host, without the brackets of an IPv6 literal and without the port.
    pub fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    /// Path and query, as the first line of a request has them.
    pub(crate) fn target(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// This address with `path` appended.
    pub fn join(&self, path: &str) -> Self {
        let base = self.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        Self { path: format!("{base}{path}"), ..self.clone() }
    }

    /// The address in a `Location` header, if it is on the same server. A zone in it changes nothing.
    pub fn at_location(&self, location: &str) -> Option<Self> {
        if location.starts_with('/') && !location.starts_with("//") {
            let path = location.split('#').next().unwrap_or_default().to_owned();
            let url = Self { path, ..self.clone() };
            return url.is_valid().then_some(url);
        }
        let url = Self::parse(location, &Zones::default()).ok()?;
        url.is_same_origin(self).then_some(url)
    }

    /// True if scheme, host and port are the same.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        let parts = |url: &Self| (url.host().to_ascii_lowercase(), url.port_or_default());
        self.scheme == other.scheme && parts(self) == parts(other)
    }

    /// The port, if the address names one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.authority.port_u16()
    }

    fn port_or_default(&self) -> u16 {
        self.port().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// The address without user and query, for messages.
    pub fn shown(&self) -> String {
        crate::secret::redact(&self.to_string())
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// True if the port of an address can exist. An address without a port, or of another form, passes.
pub fn has_possible_port(address: &str) -> bool {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority.rsplit('@').next().unwrap_or_default();
    let Some((_, port)) = host_port.rsplit_once(':') else { return true };
    // The last part of an IPv6 address ends with its bracket.
    !is_number(port) || port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Removes the zone from an IPv6 literal; other hosts are unchanged.
///
/// # Errors
/// A message that follows "the address has".
fn without_zone(authority: &str, zones: &Zones) -> Result<String, String> {
    let Some(rest) = authority.strip_prefix('[') else {
        return Ok(authority.to_owned());
    };
    let (literal, port) = rest.split_once(']').ok_or("a [ without its ]")?;
    let (address, zone) = match literal.split_once('%') {
        Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
        None => (literal, None),
    };
    let other = |_| format!("{address:?} in brackets, expected an IPv6 address");
    let address: Ipv6Addr = address.parse().map_err(other)?;
    if let Some(zone) = zone {
        let is_name = (1..=64).contains(&zone.len())
            && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:@".contains(&b));
        if !is_name {
            return Err(format!("the zone {zone:?}, expected the name of a network interface"));
        }
        zones.remember(address, zone).map_err(|known| {
            format!("the zone {zone:?}, but the same address has the zone {known:?} elsewhere")
        })?;
    }
    Ok(format!("[{address}]{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_zone_are_removed_and_stored() {
        for text in ["http://[fd02:9a04::1%eth0]:8080/x", "http://[fd02:9a04::1%25eth0]:8080/x"] {
            let zones = Zones::default();
            let url = Url::parse(text, &zones).unwrap();
            assert_eq!(url.to_string(), "http://[fd02:9a04::1]:8080/x");
            let zone = zones.zone_of(&"fd02:9a04::1".parse().unwrap());
            assert_eq!(zone.as_deref(), Some("eth0"), "{text}");
        }
    }

    #[test]
    fn paths_are_appended_to_the_configured_one() {
        let zones = Zones::default();
        for (base, expected) in [
            ("https://vim.example", "https://vim.example/v1/reports"),
            ("https://vim.example/", "https://vim.example/v1/reports"),
            ("https://vim.example:8443/site/a/", "https://vim.example:8443/site/a/v1/reports"),
        ] {
            let url = Url::parse(base, &zones).unwrap();
            assert_eq!(url.join("/v1/reports").to_string(), expected);
        }
    }

    #[test]
    fn location_on_another_server_is_not_followed() {
        let zones = Zones::default();
        let base = Url::parse("https://vim.example/x", &zones).unwrap();
        let there = base.at_location("/v1/nodes/a/instruction").unwrap();
        assert_eq!(there.to_string(), "https://vim.example/v1/nodes/a/instruction");
        for same in ["https://VIM.example/y", "https://vim.example:443/y#f", "/y#f?g"] {
            assert_eq!(base.at_location(same).unwrap().target(), "/y", "{same}");
        }
        for other in ["http://vim.example/y", "https://evil.example/", "//evil.example/", "y z"] {
            assert!(base.at_location(other).is_none(), "{other}");
        }
    }

    #[test]
    fn zone_of_the_vim_cannot_be_changed_by_another_address() {
        let zones = Zones::default();
        let base = Url::parse("http://[fe80::1%eth0]:8080", &zones).unwrap();
        for location in ["http://[fe80::1%eth1]:8080/x", "http://[fe80::1%25eth1]:8080/x"] {
            assert_ne!(base.at_location(location).as_ref(), Some(&base));
            assert!(Url::parse(location, &zones).is_err(), "{location}");
        }
        assert_eq!(zones.zone_of(&"fe80::1".parse().unwrap()).as_deref(), Some("eth0"));
    }

    #[test]
    fn port_above_65535_cannot_exist() {
        for (address, is_possible) in [
            ("http://host:65535/x", true),
            ("http://host:65536", false),
            ("http://host:99999/x:1", false),
            ("https://user:99999@host", true),
            ("http://[fe80::1%eth0]:99999", false),
            ("http://[fe80::99999]", true),
            ("http://host:0", false),
            ("http://host", true),
            ("http://host/a:99999", true),
            ("99999", true),
        ] {
            assert_eq!(has_possible_port(address), is_possible, "{address}");
        }
        assert!(Url::parse("http://host:99999", &Zones::default()).is_err());
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for text in [
            "",
            "vim.example",
            "ftp://vim.example",
            "http://",
            "http://user:pw@vim.example/",
            "http://[::1",
            "http://[zz]/",
            "http://[fe80::1%]/",
            "http://[fe80::1%a/b]/",
            "http://a b/",
            "http://a\r\nHost: b/",
        ] {
            assert!(Url::parse(text, &Zones::default()).is_err(), "{text:?}");
        }
        for secret in ["hunter2", "{\"a\":\"http://hunter2\"}", "http://h/ hunter2", "s3://hunter2"]
        {
            let error = Url::parse(secret, &Zones::default()).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
