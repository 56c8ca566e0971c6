//! The kernel's command line (`Documentation/admin-guide/kernel-parameters.rst`, `dracut.cmdline(7)`):
//! where in it a secret or the name of a host stands. What a value means is known by its place alone:
//! a password may be any word or number, so that it is replaced there whatever it looks like. Which names and
//! values are secret is said in one place, from which the report leaves them out too.

use std::net::IpAddr;
use std::ops::Range;

use probes::command_line::{is_secret_name, secret_value, tokens, user};

use super::collect::Secrets;

/// The ends of names of arguments whose values are names of hosts.
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
/// What is no secret: a switch, a scheme of authentication.
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
/// The ends of names of files and units, which have a dot like the name of a host.
const FILE_ENDS: [&str; 26] = [
    "img", "gz", "xz", "zst", "efi", "cfg", "conf", "ks", "iso", "raw", "squashfs", "ign", "json",
    "yaml", "yml", "ipxe", "txt", "pem", "crt", "ko", "service", "target", "mount", "socket",
    "timer", "device",
];

/// Protocols of remote disks and file systems.
const PROTOCOLS: [&str; 6] = ["iscsi", "nfs", "nfs4", "nbd", "cifs", "aoe"];

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Secret,
    /// A value of a URL's query, which may as well be the name of an architecture.
    Query,
    Host,
}

/// A place of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    range: Range<usize>,
    kind: Kind,
}

/// Collects what the line holds.
pub(super) fn collect(line: &str, secrets: &mut Secrets) {
    for word in words(line) {
        let (key, value) = argument(line, word);
        if key == "ip" {
            // The MAC at the end of ip=<interface>:dhcp:<mtu>:<MAC>.
            let text = line.get(value.clone()).unwrap_or_default();
            let mac = text.len().checked_sub(17).and_then(|at| text.get(at..));
            secrets.in_text(mac.unwrap_or_default());
        }
        if !is_secret_name(&key) {
            secrets.named(&key, line.get(value).unwrap_or_default());
        }
    }
    for Span { range, kind } in spans(line) {
        let text = line.get(range).unwrap_or_default();
        match kind {
            Kind::Host => secrets.host(text),
            Kind::Secret => secrets.text(text),
            // A short value of a query is replaced on the command line alone.
            Kind::Query if text.len() >= 8 => secrets.text(text),
            Kind::Query => {}
        }
    }
}

/// The words of the line: blanks within quotes do not end one.
fn words(line: &str) -> Vec<Range<usize>> {
    let (mut words, mut start, mut is_quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        is_quoted ^= c == '"';
        if c.is_whitespace() && !is_quoted {
            words.push(start..at);
            start = at + c.len_utf8();
        }
    }
    words.push(start..line.len());
    words.retain(|word| !word.is_empty());
    words
}

/// The name of an argument and the place of its value, without quotes.
fn argument(line: &str, word: Range<usize>) -> (String, Range<usize>) {
    let word = trimmed(line, word, &['"']);
    let text = line.get(word.clone()).unwrap_or_default();
    // In a URL that stands alone a sign of equality belongs to the query.
    match text.find('=').filter(|at| !text[..*at].contains('/')) {
        Some(at) => {
            let key = line.get(word.start..word.start + at).unwrap_or_default();
            (key.to_lowercase(), trimmed(line, word.start + at + 1..word.end, &['"']))
        }
        None => (String::new(), word),
    }
}

/// All places of the line that hold a secret or the name of a host, in their order.
fn spans(line: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for word in words(line) {
        let (key, value) = argument(line, word.clone());
        in_value(line, &key, value.clone(), &mut spans);
        let text = line.get(word.clone()).unwrap_or_default();
        if let Some(at) = secret_value(text).filter(|at| word.start + at > value.start + 1) {
            // Of a name within the value; a URL's query is taken apart there.
            let rest = trimmed(line, word.start + at..word.end, &['"']);
            spans.extend(Some(span(rest, Kind::Secret)).filter(|_| !text.contains("://")));
        }
        let at = |token: Range<usize>| word.start + token.start..word.start + token.end;
        spans.extend(tokens(text).into_iter().map(|token| span(at(token), Kind::Secret)));
    }
    let is_meant = |span: &Span| {
        let text = line.get(span.range.clone()).unwrap_or_default();
        let is_word = WORDS.contains(&text.to_lowercase().as_str());
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // The address of a host is replaced as every address is.
        let is_no_name = is_number || text.parse::<IpAddr>().is_ok();
        // One character is a switch.
        !(text.len() < 2 || is_word || span.kind == Kind::Host && is_no_name)
    };
    spans.retain(is_meant);
    spans.sort_by_key(|span| (span.range.start, span.range.end));
    spans.dedup_by(|next, span| {
        let is_overlapping = next.range.start < span.range.end;
        if is_overlapping {
            span.range.end = span.range.end.max(next.range.end);
        }
        is_overlapping
    });
    spans
}

/// `line` with what `secret` makes of its secrets and hosts, and `other` of all that is between them.
pub(super) fn rewrite(
    line: &str,
    mut secret: impl FnMut(&str) -> String,
    other: impl Fn(&str) -> String,
) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for Span { range, .. } in spans(line) {
        out.push_str(&other(line.get(at..range.start).unwrap_or_default()));
        out.push_str(&secret(line.get(range.clone()).unwrap_or_default()));
        at = range.end;
    }
    out.push_str(&other(line.get(at..).unwrap_or_default()));
    out
}

fn in_value(line: &str, key: &str, value: Range<usize>, spans: &mut Vec<Span>) {
    let text = line.get(value.clone()).unwrap_or_default();
    let end = key.rsplit(['.', '_', '-']).next().unwrap_or_default();
    if is_secret_name(key) {
        // A volume by its UUID, as in rd.luks.key=<file>:UUID=…, is replaced as that everywhere.
        let parts = pieces(line, value, &[':']).into_iter();
        let is_volume =
            |part: &Range<usize>| line.get(part.clone()).is_some_and(|p| p.contains("UUID="));
        spans.extend(parts.filter(|part| !is_volume(part)).map(|part| span(part, Kind::Secret)));
    } else if key == "ip" {
        // ip=<client>:<server>:<gateway>:<netmask>:<hostname>:<interface>:…, IPv6 in brackets.
        let fields = pieces(line, value, &[':']);
        let server = fields.get(1).and_then(|field| line.get(field.clone())).unwrap_or_default();
        // ip=<interface>:dhcp:<mtu>:<MAC> has no name.
        if server.is_empty() || is_address(server) {
            spans.extend(fields.get(4).cloned().map(|field| span(field, Kind::Host)));
        }
    } else if text.contains("://") {
        in_urls(line, value, spans);
    } else if is_address(text) {
        // It is replaced as every address is.
    } else if HOST_ENDS.contains(&end) {
        let names = pieces(line, value, &[':', ',']);
        spans.extend(names.into_iter().map(|name| span(name, Kind::Host)));
    } else if !matches!(key, "boot_image" | "initrd") {
        in_source(line, key, value, spans);
    }
}

/// An address as it stands in URLs and arguments, IPv6 in brackets or not.
fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Where a file system or disk is: `nfs:<host>:<path>`, `iscsi:<user>:<password>@<host>:…`.
fn in_source(line: &str, key: &str, value: Range<usize>, spans: &mut Vec<Span>) {
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
        spans.extend(before.filter(|p| !is_protocol(p)).map(|part| span(part, Kind::Secret)));
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
        // The first behind the protocol is the server, even where its name has no dot.
        let is_server = is_first && !text.contains('/') && !text.contains('=') && !is_address(text);
        is_first = false;
        if is_host(text) || (is_server && !text.starts_with("iqn.")) {
            spans.push(span(part, Kind::Host));
        }
    }
}

/// Every URL of a value: of several, each ends where the next one's scheme begins.
fn in_urls(line: &str, value: Range<usize>, spans: &mut Vec<Span>) {
    let text = line.get(value.clone()).unwrap_or_default();
    let starts: Vec<usize> = text.match_indices("://").map(|(at, _)| value.start + at).collect();
    let scheme = |at: usize| {
        let before = line.get(value.start..at).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        value.start + before.trim_end_matches(is_part).len()
    };
    for (n, at) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(value.end, |next| scheme(*next).max(at + 3));
        in_url(line, trimmed(line, at + 3..end, &[',', ';', '|', '\'', '"', ' ']), spans);
    }
}

/// What follows the scheme of a URL: user and password, host, values of the query.
fn in_url(line: &str, rest: Range<usize>, spans: &mut Vec<Span>) {
    let text = line.get(rest.clone()).unwrap_or_default();
    let authority_end = rest.start + text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = line.get(rest.start..authority_end).unwrap_or_default();
    let host_start = rest.start + authority.rfind('@').map_or(0, |at| at + 1);
    if host_start > rest.start {
        let user = pieces(line, rest.start..host_start - 1, &[':']).into_iter();
        spans.extend(user.map(|part| span(part, Kind::Secret)));
    }
    let host = pieces(line, host_start..authority_end, &[':']).into_iter().next();
    // An address in brackets is replaced as every address is.
    let host = host.filter(|host| !line.get(host.clone()).is_some_and(|h| h.starts_with('[')));
    spans.extend(host.map(|host| span(host, Kind::Host)));
    let Some(query) = text.find(['?', '#']).map(|at| rest.start + at + 1) else { return };
    for pair in pieces(line, query..rest.end, &['&', ';', '#', '?']) {
        let name = line.get(pair.clone()).and_then(|pair| pair.find('=')).map_or(0, |at| at + 1);
        spans.push(span(pair.start + name..pair.end, Kind::Query));
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

fn span(range: Range<usize>, kind: Kind) -> Span {
    Span { range, kind }
}
