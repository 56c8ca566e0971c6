//! Places of secrets and host names in the command line. The meaning of a value is known by its place alone: a password
//! may be any word or number, so it is replaced there whatever it looks like.

use std::net::IpAddr;

use super::arguments;
use super::redact::{is_secret_name, secret_value, tokens, user};
use crate::text::span_in;
use crate::{Encoding, Field, Kind, data};

/// Words by their sort.
const WORDS: &str = include_str!("../../data/command-line.txt");

fn is_of(sort: &str, word: &str) -> bool {
    data::lookup(WORDS, word) == Some(sort)
}

/// Everything in the line that is secret or names a host, in order and without overlaps: passwords
/// ([`Kind::Secret`]), hosts, and short values of a URL's query, which may as well be the name of an
/// architecture ([`Kind::FreeText`]); the MAC of `ip=<interface>:dhcp:<mtu>:<MAC>`.
pub fn fields(line: &str) -> Vec<Field> {
    let mut found = Found { line, fields: Vec::new() };
    for argument in arguments(line) {
        in_argument(argument.written, &mut found);
    }
    let mut fields = found.fields;
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

/// The fields found in a line so far.
struct Found<'a> {
    line: &'a str,
    fields: Vec<Field>,
}

impl Found<'_> {
    /// Adds parts of the line.
    fn add<'p>(&mut self, parts: impl IntoIterator<Item = &'p str>, kind: Kind) {
        let line = self.line;
        self.fields.extend(parts.into_iter().map(|part| Field::in_text(line, part, kind)));
    }
}

fn in_argument(text: &str, found: &mut Found) {
    let (key, value) = key_and_value(text);
    in_value(&key, value, found);
    // Of a name within the value; a URL's query is split where the URL is.
    let value_at = span_in(text.as_bytes(), value.as_bytes()).start;
    let inner = secret_value(text).filter(|at| *at > value_at + 1 && !text.contains("://"));
    found.add(inner.map(|at| text[at..].trim_matches('"')), Kind::Secret);
    found.add(tokens(text).into_iter().map(|token| &text[token]), Kind::Secret);
}

/// The lower-case name of an argument and its value, without quotes.
fn key_and_value(text: &str) -> (String, &str) {
    let text = text.trim_matches('"');
    // In a URL that is an argument of its own, an equals sign belongs to the query.
    match text.split_once('=').filter(|(key, _)| !key.contains('/')) {
        Some((key, value)) => (key.to_lowercase(), value.trim_matches('"')),
        None => (String::new(), text),
    }
}

/// True if a place holds more than a switch, a number or an address; those are replaced as every address is.
fn is_meant(line: &str, field: &Field) -> bool {
    let text = line.get(field.span.clone()).unwrap_or_default();
    let is_word = is_of("no secret", &text.to_lowercase());
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_no_name = is_number || text.parse::<IpAddr>().is_ok();
    // One character is a switch.
    !(text.len() < 2 || is_word || field.kind == Kind::HostName && is_no_name)
}

fn in_value(key: &str, text: &str, found: &mut Found) {
    let end = key.rsplit(['.', '_', '-']).next().unwrap_or_default();
    if is_secret_name(key) {
        // A volume by its UUID, as in rd.luks.key=<file>:UUID=…, is replaced as that everywhere.
        found.add(pieces(text, &[':']).filter(|part| !part.contains("UUID=")), Kind::Secret);
    } else if key == "ifname" {
        // ifname=<interface>:<MAC>
        mac_at_end(text, found);
    } else if key == "ip" {
        // ip=<client>:<server>:<gateway>:<netmask>:<hostname>:<interface>:…, IPv6 in brackets.
        mac_at_end(text, found);
        let server = pieces(text, &[':']).nth(1).unwrap_or_default();
        // ip=<interface>:dhcp:<mtu>:<MAC> has no name.
        if server.is_empty() || is_address(server) {
            found.add(pieces(text, &[':']).nth(4), Kind::HostName);
        }
    } else if text.contains("://") {
        in_urls(text, found);
    } else if is_address(text) {
        // It is replaced as every address is.
    } else if is_of("host name", end) {
        found.add(pieces(text, &[':', ',']), Kind::HostName);
    } else if !matches!(key, "boot_image" | "initrd") {
        in_source(key, text, found);
    }
}

/// Adds the MAC at the end of `ip=<interface>:dhcp:<mtu>:<MAC>`.
fn mac_at_end(text: &str, found: &mut Found) {
    let is_pair = |pair: &str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    let end = text.len().checked_sub(17).and_then(|at| text.get(at..));
    if let Some(mac) = end.filter(|mac| mac.split(':').all(is_pair)) {
        let field = Field::in_text(found.line, mac, Kind::Mac);
        found.fields.push(Field { encoding: Encoding::Hex, ..field });
    }
}

/// An address as URLs and arguments contain it, IPv6 in brackets or not.
fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Finds the secrets in the source of a file system or disk: `nfs:<host>:<path>`, `iscsi:<user>:<password>@<host>:…`.
fn in_source(key: &str, text: &str, found: &mut Found) {
    let is_network = ["root", "iscsi", "nfs", "nbd"].iter().any(|word| key.contains(word));
    // Only the first part may be one.
    let is_protocol = |part: &&str| part.as_ptr() == text.as_ptr() && is_of("protocol", part);
    // Of memory, `<size>@<start>` is written too.
    let is_user = |(_, after): &(&str, &str)| {
        let first = pieces(after, &[':', '/', ',']).next().unwrap_or_default();
        is_network || is_host(first) || is_address(first) || user(text).is_some()
    };
    let (before, rest) = text.rsplit_once('@').filter(is_user).unwrap_or(("", text));
    found.add(pieces(before, &[':']).filter(|part| !is_protocol(part)), Kind::Secret);
    let is_remote = rest.len() < text.len()
        || pieces(rest, &[':']).next().is_some_and(|part| is_protocol(&part))
        || key == "nfsroot";
    let mut is_first = is_network && is_remote;
    for part in pieces(rest, &[':', ',', '@', ';', '|']).filter(|part| !is_protocol(part)) {
        // The first after the protocol is the server, even where its name has no dot.
        let is_server = is_first && !part.contains(['/', '=']) && !is_address(part);
        is_first = false;
        if is_host(part) || (is_server && !part.starts_with("iqn.")) {
            found.add([part], Kind::HostName);
        }
    }
}

/// Every URL of a value: of several, each ends where the next one's scheme begins.
fn in_urls(text: &str, found: &mut Found) {
    let starts: Vec<usize> = text.match_indices("://").map(|(at, _)| at + 3).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    let scheme = |at: usize| text[..at - 3].trim_end_matches(is_part).len();
    for (n, at) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(text.len(), |next| scheme(*next).max(*at));
        in_url(text[*at..end].trim_matches([',', ';', '|', '\'', '"', ' ']), found);
    }
}

/// Finds the secrets after the scheme of a URL: user and password, host, values of the query.
fn in_url(text: &str, found: &mut Found) {
    const MIN_SECRET_BYTES: usize = 8;
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    found.add(pieces(user, &[':']), Kind::Secret);
    // An address in brackets is replaced as every address is.
    found.add(pieces(host, &[':']).next().filter(|host| !host.starts_with('[')), Kind::HostName);
    let Some((_, query)) = text.split_once(['?', '#']) else { return };
    for pair in pieces(query, &['&', ';', '#', '?']) {
        let value = pair.split_once('=').map_or(pair, |(_, value)| value);
        // A short value may as well be a word that is used elsewhere.
        let is_long = value.len() >= MIN_SECRET_BYTES;
        found.add([value], if is_long { Kind::Secret } else { Kind::FreeText });
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
        && !is_of("file", last)
}

/// The parts of a text between separators; brackets hold an IPv6 address together.
fn pieces<'a>(text: &'a str, separators: &'a [char]) -> impl Iterator<Item = &'a str> {
    let mut is_bracketed = false;
    text.split(move |c| {
        is_bracketed = c == '[' || (is_bracketed && c != ']');
        separators.contains(&c) && !is_bracketed
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    #[test]
    fn passwords_hosts_and_short_query_values_have_their_own_kinds() {
        let line = "quiet rci.vim=https://user:hunter22@vim7.example:8443/boot?sig=abcdef0123&n=4711 \
                    rd.token=\"two words\" ip=192.0.2.3::192.0.2.1:255.255.255.0:node-17:eno1:none";
        let expected = [
            (Kind::Secret, "user"),
            (Kind::Secret, "hunter22"),
            (Kind::HostName, "vim7.example"),
            (Kind::Secret, "abcdef0123"),
            (Kind::FreeText, "4711"),
            (Kind::Secret, "two words"),
            (Kind::HostName, "node-17"),
        ];
        assert_fields(&fields(line), line, &expected);
    }

    #[test]
    fn where_two_secrets_overlap_the_span_holds_both() {
        let line = "netroot=iscsi:me:dGhpc0lzQVNlY3JldDEyMzQ1/geheim@192.0.2.1::::iqn.x";
        let user = [(Kind::Secret, "me"), (Kind::Secret, "dGhpc0lzQVNlY3JldDEyMzQ1/geheim")];
        assert_fields(&fields(line), line, &user);
    }
}
