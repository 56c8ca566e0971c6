//! Values in a lease that name the machine, its network or its domains. A name may be any word, so the option decides;
//! addresses are found by their form.

use std::net::IpAddr;

use crate::{Encoding, Field, Kind};

/// Words in the names of options whose values are names of hosts and domains.
const NAMES: [&str; 8] =
    ["hostname", "domain", "servername", "fqdn", "rootpath", "nextserver", "tftp", "nisdomain"];
/// Options with the identifier that the client sends, derived from the machine's.
const CLIENT_IDS: [&str; 3] = ["CLIENTID", "dhcp-client-identifier", "client-id"];
/// Identifiers of `DHCPv6` in dhclient's own spellings: with numbers that have one digit where that is
/// enough, or in quotes as octal numbers and letters.
const DUIDS: [&str; 3] = ["dhcp6.client-id", "dhcp6.server-id", "default-duid"];

/// The names of hosts and domains, the identifiers of client and server, and the addresses in a lease.
pub fn fields(text: &str) -> Vec<Field> {
    let mut fields = addresses(text);
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("option ").unwrap_or(line);
        let Some((key, value)) = line.split_once(['=', ' ']) else { continue };
        fields.extend(hosts(text, key, value));
        fields.extend(identifier(text, key, value));
    }
    fields
}

fn hosts(text: &str, key: &str, value: &str) -> Vec<Field> {
    let key = key.to_lowercase().replace(['-', '_', '.'], "");
    if !NAMES.iter().any(|name| key.contains(name)) {
        return Vec::new();
    }
    let words = value.split(|c: char| c.is_whitespace() || "\",;".contains(c));
    let words = words.filter(|word| word.parse::<IpAddr>().is_err());
    // On a server, a path follows its name.
    let names = words.filter_map(|word| word.split(':').next()).filter(|word| is_name(word));
    names.map(|name| Field::in_text(text, name, Kind::HostName)).collect()
}

fn identifier(text: &str, key: &str, value: &str) -> Option<Field> {
    if DUIDS.contains(&key) {
        let id = value.trim_end_matches(';').trim_matches('"');
        return Some(Field::in_text(text, id, Kind::Serial));
    }
    let is_duid = key == "DHCP6_CLIENT_DUID";
    if !is_duid && !CLIENT_IDS.contains(&key) {
        return None;
    }
    // systemd writes the kind of a DUID before it: `DUID-LLT:000100…`.
    let id = if is_duid { value.rsplit(':').next().unwrap_or_default() } else { value };
    let n_digits = id.bytes().filter(u8::is_ascii_hexdigit).count();
    // The kind of hardware and a MAC are replaced as the MAC.
    let is_unique = n_digits > 14 && n_digits.is_multiple_of(2);
    let id = Field { encoding: Encoding::Hex, ..Field::in_text(text, id, Kind::Serial) };
    is_unique.then_some(id)
}

fn addresses(text: &str) -> Vec<Field> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let is_address = |text: &&str| text.parse::<IpAddr>().is_ok();
    let mut fields = Vec::new();
    for token in text.split(|c: char| !is_part(c)).map(|token| token.trim_end_matches([':', '.'])) {
        // A port may follow an address of IPv4.
        let parts = token.split(':').filter(|_| !is_address(&token));
        let found = Some(token).into_iter().chain(parts).filter(is_address);
        fields.extend(found.map(|found| Field::in_text(text, found, Kind::Address)));
    }
    fields
}

fn is_name(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    word.bytes().all(is_part) && !is_number && !["true", "false", "yes", "no"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    #[test]
    fn names_identifiers_and_addresses_are_found_and_times_are_not() {
        let text = "ADDRESS=10.31.7.20\nHOSTNAME=controller\nLIFETIME=3600\n\
                    CLIENTID=ffb6220feb00020000ab11d2a4c3d1e5f60718\n  \
                    option domain-search \"lab.example.\", \"dev.example.\";\n  \
                    option root-path \"filer:/export\";\n  \
                    option dhcp6.client-id 0:1:0:1:29:a7;\nDHCP6_CLIENT_DUID=DUID-LL:0001020304050607\n";
        let expected = [
            (Kind::Address, "10.31.7.20"),
            (Kind::HostName, "controller"),
            (Kind::Serial, "ffb6220feb00020000ab11d2a4c3d1e5f60718"),
            (Kind::HostName, "lab.example."),
            (Kind::HostName, "dev.example."),
            (Kind::HostName, "filer"),
            (Kind::Serial, "0:1:0:1:29:a7"),
            (Kind::Serial, "0001020304050607"),
        ];
        assert_fields(&fields(text), text, &expected);
    }
}
