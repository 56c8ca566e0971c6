//! The proxy for every request, as the configuration or the environment names it.

use anyhow::anyhow;
use formats::text::is_number;
use ureq::Proxy;

use super::no_proxy::Networks;
use super::url::check_proxy;
use crate::secret::{self, Secret};

/// A proxy for every request: reports, Ignition configs and images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its address, e.g. `http://proxy.example:3128`; it may contain a user and a password.
    url: Secret,
    /// Hosts that are reached without it, as `no_proxy` lists them.
    no_proxy: Vec<String>,
}

impl ProxySettings {
    /// The proxy that the environment names, as curl reads it: `https_proxy`, `all_proxy`, `http_proxy`, and `no_proxy`.
    pub fn from_env() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The same with another environment.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = |name: &str| {
            let value = variable(name).or_else(|| variable(&name.to_ascii_uppercase()));
            value.filter(|text| !text.trim().is_empty())
        };
        let url = ["https_proxy", "all_proxy", "http_proxy"].into_iter().find_map(value)?;
        let no_proxy = value("no_proxy").unwrap_or_default();
        Some(Self::default().with_url(&url).with_no_proxy(&[no_proxy]))
    }

    /// The same with another address of the proxy.
    pub fn with_url(self, url: &str) -> Self {
        Self { url: Secret::new(url.trim()), ..self }
    }

    /// The same with other hosts that are reached without the proxy.
    pub fn with_no_proxy(self, hosts: &[String]) -> Self {
        let hosts = hosts.iter().flat_map(|hosts| hosts.split([',', ' ', '\t', '\n']));
        let hosts = hosts.map(|host| bare(host).to_owned());
        Self { no_proxy: hosts.filter(|host| !host.is_empty()).collect(), ..self }
    }

    /// The entries of `no_proxy` that no host can match.
    pub(super) fn useless(&self) -> impl Iterator<Item = &String> {
        self.no_proxy.iter().filter(|entry| {
            let is_network = Networks::of([entry.as_str()]) != Networks::default();
            let name = entry.trim_start_matches("*.");
            !is_network && *entry != "*" && name.contains(|c: char| "*/<>:[]".contains(c))
        })
    }

    /// The addresses and networks that are reached without the proxy.
    pub(super) fn networks(&self) -> Networks {
        Networks::of(self.no_proxy.iter().map(String::as_str))
    }

    /// The proxy as options of curl. Its address may contain a password.
    pub(crate) fn options_of_curl(&self) -> Vec<(&'static str, String)> {
        vec![("proxy", self.url.expose().to_owned()), ("noproxy", self.no_proxy.join(","))]
    }

    /// The same with another host that is reached without the proxy.
    pub(super) fn also_without(&self, host: String) -> Self {
        let mut other = self.clone();
        other.no_proxy.push(host);
        other
    }

    /// The proxy in the form of the HTTP library.
    ///
    /// # Errors
    /// The address is malformed.
    pub(super) fn proxy(&self) -> anyhow::Result<Proxy> {
        // An error of the library may quote the address.
        secret::conceal_address(self.url.expose());
        check_proxy(self.url.expose())?;
        let wrong = |_| {
            anyhow!(
                "the proxy is malformed (--proxy, or https_proxy, all_proxy or http_proxy), expected e.g. http://proxy.example:3128"
            )
        };
        let parsed = Proxy::new(self.url.expose()).map_err(wrong)?;
        let mut builder = Proxy::builder(parsed.protocol()).host(parsed.host()).port(parsed.port());
        if let Some(user) = parsed.username() {
            builder = builder.username(user);
        }
        if let Some(password) = parsed.password() {
            builder = builder.password(password);
        }
        for host in &self.no_proxy {
            // curl's `.example.com` and `example.com` both include the hosts of the domain.
            let domain = host.trim_start_matches("*.").trim_start_matches('.');
            builder = builder.no_proxy(domain);
            if domain != "*" {
                builder = builder.no_proxy(&format!(".{domain}"));
            }
        }
        builder.build().map_err(wrong)
    }
}

/// An entry of `no_proxy` without what others write around a host: scheme, port, zone, a dot or slash at the end.
fn bare(entry: &str) -> &str {
    let entry = entry.split_once("://").map_or(entry, |(_, rest)| rest).trim_end_matches('/');
    let host = match entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((literal, rest)) if rest.is_empty() || rest.starts_with(':') => literal,
        _ => match entry.split_once(':') {
            Some((host, port)) if is_number(port) => host,
            _ => entry,
        },
    };
    host.split('%').next().unwrap_or_default().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use ureq::http::Uri;

    use super::*;

    #[test]
    fn proxy_comes_from_the_environment_and_never_shows_its_password() {
        let settings = |pairs: &'static [(&str, &str)]| {
            ProxySettings::from_variables(move |name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(settings(&[("no_proxy", "a"), ("http_proxy", "")]), None);
        let proxy = settings(&[
            ("http_proxy", "http://other:1"),
            ("HTTPS_PROXY", "http://user:pass@proxy.example:3128"),
            (
                "no_proxy",
                "vim.example, .site.example,192.0.2.1 http://a.example:80/ *.b.example c.example. [fe80::1%eth0]:80 10.* <local>",
            ),
        ]);
        let proxy = proxy.unwrap();
        assert!(proxy.useless().eq(["10.*", "<local>"]), "{:?}", proxy.no_proxy);
        assert!(proxy.networks().contain_host("[fe80::1]"));
        assert!(!format!("{proxy:?}").contains("pass"), "{proxy:?}");
        let proxy = proxy.proxy().unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("proxy.example", 3128));
        assert_eq!((proxy.username(), proxy.password()), (Some("user"), Some("pass")));
        for (url, is_direct) in [
            ("https://vim.example/x", true),
            ("https://a.vim.example/x", true),
            ("https://site.example", true),
            ("https://a.site.example", true),
            ("http://192.0.2.1:80/", true),
            ("http://a.example", true),
            ("http://x.b.example", true),
            ("http://c.example", true),
            ("https://notvim.example", false),
            ("http://192.0.2.10/", false),
        ] {
            assert_eq!(proxy.is_no_proxy(&Uri::try_from(url).unwrap()), is_direct, "{url}");
        }
        for (password, code) in
            [("hun/ter", "%2F"), ("hun?ter", "%3F"), ("hun#ter", "%23"), ("hun@ter", "%40")]
        {
            for scheme in ["", "http://", "socks5://"] {
                let address = format!("{scheme}user:{password}@proxy.example:3128");
                let proxy = ProxySettings::default().with_url(&address);
                let error = format!("{:#}", proxy.proxy().unwrap_err());
                let expected = format!("expected it percent-encoded: {code}");
                assert!(error.ends_with(&expected), "{error}");
                assert!(!error.contains("hun") && !error.contains("ter@"), "{error}");
            }
        }
        let encoded = settings(&[("all_proxy", "http://user:hun%2Fter@proxy.example")]).unwrap();
        assert_eq!(encoded.proxy().unwrap().password(), Some("hun/ter"));
        let malformed = settings(&[("all_proxy", "http://")]).unwrap();
        assert!(malformed.proxy().unwrap_err().to_string().contains("is malformed"));
    }
}
