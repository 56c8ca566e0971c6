//! Leases of the DHCP clients (`dhclient.leases(5)`, systemd's and `NetworkManager`'s files of keys and
//! values): names of the machine and its domains. Addresses in them are found by their form.

use std::net::IpAddr;

use super::collect::Secrets;

const FOLDERS: [&str; 5] = [
    "run/systemd/netif/",
    "var/lib/NetworkManager/",
    "run/NetworkManager/",
    "var/lib/dhclient/",
    "var/lib/dhcp/",
];
/// Words in the names of options whose values are names of hosts and domains.
const NAMES: [&str; 8] =
    ["hostname", "domain", "servername", "fqdn", "rootpath", "nextserver", "tftp", "nisdomain"];

/// Whether the file at `path` is one.
pub(super) fn is_lease(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Collects what `text` holds, addresses apart.
pub(super) fn collect(text: &str, secrets: &mut Secrets) {
    for host in hosts(text) {
        secrets.host(host);
    }
    for id in client_ids(text) {
        secrets.digits(&id);
    }
    for id in dhclient_duids(text) {
        secrets.text(id);
    }
}

/// The names of hosts and domains in `text`.
fn hosts(text: &str) -> Vec<&str> {
    let mut hosts = Vec::new();
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("option ").unwrap_or(line);
        let Some((key, value)) = line.split_once(['=', ' ']) else { continue };
        let key = key.to_lowercase().replace(['-', '_', '.'], "");
        if NAMES.iter().any(|name| key.contains(name)) {
            // A path on a server stands behind its name.
            let words = value.split(|c: char| c.is_whitespace() || "\",;".contains(c));
            let words = words.filter(|word| word.parse::<IpAddr>().is_err());
            hosts.extend(words.filter_map(|word| word.split(':').next()).filter(|w| is_name(w)));
        }
    }
    hosts
}

/// The identifiers that the client gives of itself (`CLIENTID=`), made of the machine's.
fn client_ids(text: &str) -> Vec<String> {
    let ids = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("option ");
        let (key, value) = line.split_once(['=', ' '])?;
        let is_id = ["CLIENTID", "dhcp-client-identifier", "client-id"].contains(&key);
        // systemd writes the kind of a DUID before it: `DUID-LLT:000100…`.
        let is_duid = key == "DHCP6_CLIENT_DUID";
        let value = if is_duid { value.rsplit(':').next().unwrap_or_default() } else { value };
        let digits: String = value.chars().filter(char::is_ascii_hexdigit).collect();
        (is_id || is_duid).then(|| digits.to_lowercase())
    });
    // The kind of hardware and a MAC are replaced as the MAC.
    ids.filter(|id| id.len() > 14 && id.len().is_multiple_of(2)).collect()
}

/// The identifiers of `DHCPv6`, of client and server, in dhclient's own spellings: with numbers that have
/// one digit where that is enough, or in quotes as octal numbers and letters.
fn dhclient_duids(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("option "));
    let id = |line: &'_ str| -> Option<usize> {
        let keys = ["dhcp6.client-id ", "dhcp6.server-id ", "default-duid "];
        keys.iter().find(|key| line.starts_with(**key)).map(|key| key.len())
    };
    lines.filter_map(move |line| {
        Some(line.get(id(line)?..)?.trim_end_matches(';').trim_matches('"'))
    })
}

fn is_name(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    word.bytes().all(is_part) && !is_number && !["true", "false", "yes", "no"].contains(&word)
}
