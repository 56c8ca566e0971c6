//! Places of secrets and host names in the command line. The meaning of a value is known by its place alone: a password
//! may be any word or number, so it is replaced there whatever it looks like.

use std::net::IpAddr;
use std::ops::Range;

use super::redact::{is_secret_name, secret_value, tokens, user};
use super::{Argument, arguments};
use crate::{Encoding, Field, Kind};

/// Suffixes of argument names whose values are host names.
const HOST_ENDS: [&str; 9] = [
    "hostname",
    "domain",
    "domainname",
    "server",
    "host",
    "syslog",
    "nodename",
    "vncconnect",
    "connect",
];
/// Words that are not secrets: a switch, a scheme of authentication.
const WORDS: [&str; 12] = [
    "yes",
    "no",
    "on",
    "off",
    "true",
    "false",
    "none",
    "auto",
    "ask",
    "basic",
    "bearer",
    "localhost",
];
/// Suffixes of file and unit names, which have a dot like a host name.
const FILE_ENDS: [&str; 26] = [
    "img", "gz", "xz", "zst", "efi", "cfg", "conf", "ks", "iso", "raw", "squashfs", "ign", "json",
    "yaml", "yml", "ipxe", "txt", "pem", "crt", "ko", "service", "target", "mount", "socket",
    "timer", "device",
];

/// Protocols of remote disks and file systems.
const PROTOCOLS: [&str; 6] = ["iscsi", "nfs", "nfs4", "nbd", "cifs", "aoe"];

/// Everything in the line that is secret or names a host, in order and without overlaps: passwords
/// ([`Kind::Secret`]), hosts, and short values of a URL's query, which may as well be the name of an
/// architecture ([`Kind::FreeText`]); the MAC of `ip=<interface>:dhcp:<mtu>:<MAC>`.
pub fn fields(line: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    for argument in arguments(line) {
        in_argument(line, &argument, &mut fields);
    }
    fields.retain(|field| is_meant(line, field));
    fields.sort_by_key(|field| (field.span.start, field.span.end));
    fields.dedup_by(|next, field| {
        let is_overlapping = next.span.start < field.span.end;
        if is_overlapping {
            field.span.end = field.span.end.max(next.span.end);
        }
        is_overlapping
    });
    fields
}

fn in_argument(line: &str, argument: &Argument, fields: &mut Vec<Field>) {
    let word = argument.span.clone();
    let (key, value) = key_and_value(line, word.clone());
    in_value(line, &key, value.clone(), fields);
    let text = argument.written;
    if let Some(at) = secret_value(text).filter(|at| word.start + at > value.start + 1) {
        // Of a name within the value; a URL's query is split where the URL is.
        let rest = trimmed(line, word.start + at..word.end, &['"']);
        fields.extend(Some(span(rest, Kind::Secret)).filter(|_| !text.contains("://")));
    }
    let at = |token: Range<usize>| word.start + token.start..word.start + token.end;
    fields.extend(tokens(text).into_iter().map(|token| span(at(token), Kind::Secret)));
}

/// The lower-case name of an argument and the place of its value, without quotes.
fn key_and_value(line: &str, word: Range<usize>) -> (String, Range<usize>) {
    let word = trimmed(line, word, &['"']);
    let text = line.get(word.clone()).unwrap_or_default();
    // In a URL that is an argument of its own, an equals sign belongs to the query.
    match text.find('=').filter(|at| !text[..*at].contains('/')) {
        Some(at) => {
            let key = line.get(word.start..word.start + at).unwrap_or_default();
            (key.to_lowercase(), trimmed(line, word.start + at + 1..word.end, &['"']))
        }
        None => (String::new(), word),
    }
}

/// True if a place holds more than a switch, a number or an address; those are replaced as every address is.
fn is_meant(line: &str, field: &Field) -> bool {
    let text = line.get(field.span.clone()).unwrap_or_default();
    let is_word = WORDS.contains(&text.to_lowercase().as_str());
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_no_name = is_number || text.parse::<IpAddr>().is_ok();
    // One character is a switch.
    !(text.len() < 2 || is_word || field.kind == Kind::HostName && is_no_name)
}

fn in_value(line: &str, key: &str, value: Range<usize>, fields: &mut Vec<Field>) {
    let text = line.get(value.clone()).unwrap_or_default();
    let end = key.rsplit(['.', '_', '-']).next().unwrap_or_default();
    if is_secret_name(key) {
        // A volume by its UUID, as in rd.luks.key=<file>:UUID=…, is replaced as that everywhere.
        let parts = pieces(line, value, &[':']).into_iter();
        let is_volume =
            |part: &Range<usize>| line.get(part.clone()).is_some_and(|p| p.contains("UUID="));
        fields.extend(parts.filter(|part| !is_volume(part)).map(|part| span(part, Kind::Secret)));
    } else if key == "ifname" {
        // ifname=<interface>:<MAC>
        fields.extend(mac_at_end(line, value));
    } else if key == "ip" {
        // ip=<client>:<server>:<gateway>:<netmask>:<hostname>:<interface>:…, IPv6 in brackets.
        fields.extend(mac_at_end(line, value.clone()));
        let parts = pieces(line, value, &[':']);
        let server = parts.get(1).and_then(|part| line.get(part.clone())).unwrap_or_default();
        // ip=<interface>:dhcp:<mtu>:<MAC> has no name.
        if server.is_empty() || is_address(server) {
            fields.extend(parts.get(4).cloned().map(|part| span(part, Kind::HostName)));
        }
    } else if text.contains("://") {
        in_urls(line, value, fields);
    } else if is_address(text) {
        // It is replaced as every address is.
    } else if HOST_ENDS.contains(&end) {
        let names = pieces(line, value, &[':', ',']);
        fields.extend(names.into_iter().map(|name| span(name, Kind::HostName)));
    } else if !matches!(key, "boot_image" | "initrd") {
        in_source(line, key, value, fields);
    }
}

/// The MAC at the end of `ip=<interface>:dhcp:<mtu>:<MAC>`.
fn mac_at_end(line: &str, value: Range<usize>) -> Option<Field> {
    let start = value.end.checked_sub(17).filter(|start| *start >= value.start)?;
    let mut pairs = line.get(start..value.end)?.split(':');
    let is_pair = |pair: &str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    pairs.all(is_pair).then_some(Field {
        span: start..value.end,
        kind: Kind::Mac,
        encoding: Encoding::Hex,
    })
}

/// An address as URLs and arguments contain it, IPv6 in brackets or not.
fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Finds the secrets in the source of a file system or disk: `nfs:<host>:<path>`, `iscsi:<user>:<password>@<host>:…`.
fn in_source(line: &str, key: &str, value: Range<usize>, fields: &mut Vec<Field>) {
    let text = line.get(value.clone()).unwrap_or_default();
    let mut rest = value.clone();
    let is_network = ["root", "iscsi", "nfs", "nbd"].iter().any(|word| key.contains(word));
    let is_protocol = |part: &Range<usize>| {
        let text = line.get(part.clone()).unwrap_or_default();
        part.start == value.start && PROTOCOLS.contains(&text)
    };
    // Of memory, `<size>@<start>` is written too.
    let is_user = |at: &usize| {
        let after = pieces(line, value.start + at + 1..value.end, &[':', '/', ',']);
        let first = after.first().and_then(|part| line.get(part.clone())).unwrap_or_default();
        is_network || is_host(first) || is_address(first) || user(text).is_some()
    };
    if let Some(at) = text.rfind('@').filter(is_user) {
        let before = pieces(line, value.start..value.start + at, &[':']).into_iter();
        fields.extend(before.filter(|p| !is_protocol(p)).map(|part| span(part, Kind::Secret)));
        rest.start += at + 1;
    }
    let is_remote = rest.start > value.start
        || pieces(line, rest.clone(), &[':']).first().is_some_and(is_protocol)
        || key == "nfsroot";
    let mut is_first = is_network && is_remote;
    for part in pieces(line, rest, &[':', ',', '@', ';', '|']) {
        let text = line.get(part.clone()).unwrap_or_default();
        if is_protocol(&part) {
            continue;
        }
        // The first after the protocol is the server, even where its name has no dot.
        let is_server = is_first && !text.contains('/') && !text.contains('=') && !is_address(text);
        is_first = false;
        if is_host(text) || (is_server && !text.starts_with("iqn.")) {
            fields.push(span(part, Kind::HostName));
        }
    }
}

/// Every URL of a value: of several, each ends where the next one's scheme begins.
fn in_urls(line: &str, value: Range<usize>, fields: &mut Vec<Field>) {
    let text = line.get(value.clone()).unwrap_or_default();
    let starts: Vec<usize> = text.match_indices("://").map(|(at, _)| value.start + at).collect();
    let scheme = |at: usize| {
        let before = line.get(value.start..at).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        value.start + before.trim_end_matches(is_part).len()
    };
    for (n, at) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(value.end, |next| scheme(*next).max(at + 3));
        in_url(line, trimmed(line, at + 3..end, &[',', ';', '|', '\'', '"', ' ']), fields);
    }
}

/// Finds the secrets after the scheme of a URL: user and password, host, values of the query.
fn in_url(line: &str, rest: Range<usize>, fields: &mut Vec<Field>) {
    let text = line.get(rest.clone()).unwrap_or_default();
    let authority_end = rest.start + text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = line.get(rest.start..authority_end).unwrap_or_default();
    let host_start = rest.start + authority.rfind('@').map_or(0, |at| at + 1);
    if host_start > rest.start {
        let user = pieces(line, rest.start..host_start - 1, &[':']).into_iter();
        fields.extend(user.map(|part| span(part, Kind::Secret)));
    }
    let host = pieces(line, host_start..authority_end, &[':']).into_iter().next();
    // An address in brackets is replaced as every address is.
    let host = host.filter(|host| !line.get(host.clone()).is_some_and(|h| h.starts_with('[')));
    fields.extend(host.map(|host| span(host, Kind::HostName)));
    let Some(query) = text.find(['?', '#']).map(|at| rest.start + at + 1) else { return };
    for pair in pieces(line, query..rest.end, &['&', ';', '#', '?']) {
        let name = line.get(pair.clone()).and_then(|pair| pair.find('=')).map_or(0, |at| at + 1);
        fields.push(query_value(pair.start + name..pair.end));
    }
}

/// The name of a host in a domain: labels with letters in the last, and no file's.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let labels: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    // iSCSI's and NVMe's names begin so; their own part is replaced as an identity.
    let is_named = ["iqn", "eui", "naa", "nqn"].iter().any(|kind| labels.first() == Some(kind));
    labels.len() >= 2
        && labels.iter().all(|label| is_label(label))
        && last.len() >= 2
        && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !is_named
        && !FILE_ENDS.contains(&last)
}

/// The parts of a place between separators; brackets hold an IPv6 address together.
fn pieces(line: &str, range: Range<usize>, separators: &[char]) -> Vec<Range<usize>> {
    let (mut pieces, mut start, mut is_bracketed) = (Vec::new(), range.start, false);
    for (at, c) in line.get(range.clone()).unwrap_or_default().char_indices() {
        is_bracketed = c == '[' || (is_bracketed && c != ']');
        if separators.contains(&c) && !is_bracketed {
            pieces.push(start..range.start + at);
            start = range.start + at + c.len_utf8();
        }
    }
    pieces.push(start..range.end);
    pieces
}

fn trimmed(line: &str, range: Range<usize>, around: &[char]) -> Range<usize> {
    let text = line.get(range.clone()).unwrap_or_default();
    let end = range.start + text.trim_end_matches(around).len();
    let start = range.end - text.trim_start_matches(around).len();
    start.min(end)..end
}

/// A short value may as well be a word that is used elsewhere.
fn query_value(range: Range<usize>) -> Field {
    const MIN_SECRET_BYTES: usize = 8;
    let kind = if range.len() >= MIN_SECRET_BYTES { Kind::Secret } else { Kind::FreeText };
    span(range, kind)
}

fn span(range: Range<usize>, kind: Kind) -> Field {
    Field::text(range, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_hosts_and_short_query_values_have_their_own_kinds() {
        let line = "quiet rci.vim=https://user:hunter22@vim7.example:8443/boot?sig=abcdef0123&n=4711 \
                    rd.token=\"two words\" ip=192.0.2.3::192.0.2.1:255.255.255.0:node-17:eno1:none";
        let found: Vec<(Kind, &str)> =
            fields(line).into_iter().map(|f| (f.kind, line.get(f.span).unwrap())).collect();
        let expected = [
            (Kind::Secret, "user"),
            (Kind::Secret, "hunter22"),
            (Kind::HostName, "vim7.example"),
            (Kind::Secret, "abcdef0123"),
            (Kind::FreeText, "4711"),
            (Kind::Secret, "two words"),
            (Kind::HostName, "node-17"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn where_two_secrets_overlap_the_span_holds_both() {
        let line = "netroot=iscsi:me:dGhpc0lzQVNlY3JldDEyMzQ1/geheim@192.0.2.1::::iqn.x";
        let found: Vec<&str> =
            fields(line).into_iter().map(|f| line.get(f.span).unwrap()).collect();
        assert_eq!(found, ["me", "dGhpc0lzQVNlY3JldDEyMzQ1/geheim"]);
    }
}
