//! `network`: makes network profiles from a cloud's metadata. `live-config` adds a unit that runs it before the agent.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use ignition::live::packet_network;

use crate::bounded;
use crate::cli::NetworkOptions;
use crate::clock::RealClock;
use crate::exit_status::ExitStatus;
use crate::http::proxy::ProxySettings;
use crate::http::{Client, ServerSettings};
use crate::live_config::additions::write_profiles;
use crate::signals::Stop;

/// Largest metadata, in bytes.
const MAX_METADATA_BYTES: u64 = 1 << 20;
/// Files that list name servers. With systemd-resolved the first one contains only its own address on this machine,
/// and the second its upstream servers.
const RESOLV_CONFS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// Maximum number of bytes to read from such a file.
const MAX_RESOLV_CONF_BYTES: u64 = 64 << 10;

/// Writes the profiles.
pub(super) fn network(options: &NetworkOptions) -> anyhow::Result<ExitStatus> {
    let settings = ServerSettings {
        allow_plain_http: options.allow_plain_http,
        proxy: ProxySettings::from_env(),
        ..ServerSettings::default()
    };
    // No handler: a signal ends the program at once, since there is nothing to restore.
    let client = Client::new(&settings, Arc::new(RealClock), Stop::default())?;
    let what = "fetching the metadata";
    let metadata = client
        .fetch_if_present(what, &options.metadata, MAX_METADATA_BYTES)
        .map_err(|error| anyhow!(error))
        .context(what)?
        .with_context(|| format!("{what}: {} has none", options.metadata))?;
    let metadata = String::from_utf8(metadata).context("the metadata is not UTF-8")?;
    // The metadata names no name servers; the live system has those of DHCP.
    let mut servers = RESOLV_CONFS.iter().map(|path| name_servers(&resolv_conf(path)));
    let servers = servers.find(|found| !found.is_empty()).unwrap_or_default();
    if servers.is_empty() {
        let files = RESOLV_CONFS.join(" and ");
        tracing::warn!(
            "{files} name no server that the profiles could have, or cannot be read; the host will not resolve names"
        );
    }
    let profiles =
        packet_network(&metadata, &servers).map_err(|error| anyhow!("the metadata: {error}"))?;
    let place = options.output.display();
    write_profiles(&options.output, &profiles).with_context(|| format!("writing to {place}"))?;
    for profile in &profiles {
        tracing::info!("wrote {place}/{}", profile.name);
    }
    Ok(ExitStatus::Done)
}

/// Returns the text of a resolv.conf(5); empty if there is none.
fn resolv_conf(path: &str) -> String {
    let bytes = bounded::read_file(Path::new(path), MAX_RESOLV_CONF_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name servers in resolv.conf(5), without those on this machine itself.
fn name_servers(resolv_conf: &str) -> Vec<IpAddr> {
    let lines = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = lines.filter_map(|address| address.trim().parse::<IpAddr>().ok());
    addresses.filter(|address| !address.is_loopback()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_this_machine_alone_are_left_out() {
        let text = "# x\nnameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver fe80::1%eth0\n\
                    nameserver 2001:db8::53\nsearch example\n";
        let expected: Vec<IpAddr> =
            vec!["192.0.2.53".parse().unwrap(), "2001:db8::53".parse().unwrap()];
        assert_eq!(name_servers(text), expected);
    }
}
