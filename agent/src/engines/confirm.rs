//! The request by which an installed system confirms its boots, as far as it is the same for every fleet.

use std::net::Ipv6Addr;

use anyhow::Context as _;

use crate::act::{Code, Confirm, Failure};
use crate::bounded;
use crate::http::ServerSettings;
use crate::http::proxy::ProxySettings;
use crate::http::url::Url;

/// Largest file with certificates that the installed system gets, in bytes.
const MAX_CA_BYTES: u64 = 256 << 10;

/// The request to this address, with further options of curl. The token and the client certificate of the node stay in the live
/// system.
///
/// # Errors
/// `CONFIG`: the file with the certificates cannot be read, or is no text.
pub(super) fn confirm(
    server: &ServerSettings,
    address: &Url,
    options: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Confirm, Failure> {
    let read = |file: &std::path::PathBuf| {
        let text = bounded::read_file(file, MAX_CA_BYTES)?;
        String::from_utf8(text).with_context(|| format!("{} is not UTF-8 text", file.display()))
    };
    let ca = server.ca_file.as_ref().map(read).transpose();
    let ca = ca.map_err(|why| Failure::new(Code::Config, format!("confirm: {why:#}")))?;
    let is_link_local =
        address.host().parse().is_ok_and(|host: Ipv6Addr| host.is_unicast_link_local());
    let unlikely = "the installed system may be unable to confirm its boots:";
    let link_local = is_link_local.then(|| {
        format!("{unlikely} {} is a link-local address without its interface", address.host())
    });
    let certificate = server
        .client_cert_file
        .is_some()
        .then(|| format!("{unlikely} it has no client certificate for {}", address.shown()));
    let direct = || vec![("noproxy", "*".to_owned())];
    let proxy = server.proxy.as_ref().map_or_else(direct, ProxySettings::options_of_curl);
    let all = [("url", address.to_string())].into_iter().chain(proxy).chain(options);
    let warnings = link_local.into_iter().chain(certificate).collect();
    Ok(Confirm { options: all.collect(), ca, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::url::Zones;

    fn of(address: &str, change: impl FnOnce(&mut ServerSettings)) -> Result<Confirm, Failure> {
        let mut server = ServerSettings::new(address);
        change(&mut server);
        confirm(&server, &Url::parse(address, &Zones::default()).unwrap(), [])
    }

    #[test]
    fn address_without_its_interface_and_a_certificate_that_the_system_lacks_are_warnings() {
        let warnings = |address: &str, change: fn(&mut ServerSettings)| {
            of(address, change).unwrap().warnings.join("; ")
        };
        assert_eq!(warnings("https://[fd02::1]/x", |_| {}), "");
        assert!(warnings("http://[fe80::1%eth0]:80/x", |_| {}).contains("fe80::1 is a link-local"));
        let certificate = |server: &mut ServerSettings| server.client_cert_file = Some("/x".into());
        assert!(warnings("https://vim/x", certificate).contains("client certificate for"));
    }

    #[test]
    fn proxy_and_certificates_go_with_the_request_and_an_absent_file_is_a_failure() {
        assert!(of("http://vim/", |_| {}).unwrap().options.contains(&("noproxy", "*".into())));
        let proxied = of("http://vim/", |server| {
            let proxy = ProxySettings::default().with_url("http://u:p@proxy:3128");
            server.proxy = Some(proxy.with_no_proxy(&["a, b".into()]));
        });
        let options = proxied.unwrap().options;
        let expected = ["http://u:p@proxy:3128", "a,b"].map(str::to_owned);
        assert_eq!(
            options[1..].iter().map(|(_, value)| value.clone()).collect::<Vec<_>>(),
            expected
        );
        let absent = of("https://vim/", |server| server.ca_file = Some("/nonexistent".into()));
        assert!(absent.unwrap_err().to_string().contains("/nonexistent"));
    }
}
