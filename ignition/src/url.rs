//! URLs as Ignition parses them: the grammar of Go's `net/url`, and data URLs,
//! `data:[type/subtype][;attribute=value]*[;base64],data`.
//!
//! Source: RFC 2397, and RFC 2045 for the parameters, as strict as Ignition's decoder
//! (vincent-petithory/dataurl); the cases in `check/cases.txt` were verified with the real program.

use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use crate::text::shown;

/// Types that the decoder of data URLs knows in addition to those that start with `x-`.
const TYPES: [&str; 7] = ["application", "audio", "image", "message", "multipart", "text", "video"];
/// Go's decoder does not look at the bits after the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Checks a URL as Go's `net/url` does and returns its scheme in lower case.
pub(crate) fn url_form(url: &str) -> Result<String, &'static str> {
    if url.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("a URL without control characters");
    }
    let (scheme, rest) = url.split_once(':').ok_or("a URL with a scheme")?;
    let is_scheme = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme) {
        return Err("a URL with a scheme of letters");
    }
    if scheme == "data" {
        return Ok(scheme.to_owned());
    }
    let (bare, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let path = bare.split('?').next().unwrap_or(bare);
    let (authority, path) = match path.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", path),
    };
    if !percent_ok(path) || !percent_ok(fragment) {
        return Err("a URL in which % is followed by two hex digits");
    }
    authority_form(authority)?;
    Ok(scheme.to_ascii_lowercase())
}

fn authority_form(authority: &str) -> Result<(), &'static str> {
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_ok = |b: u8| b.is_ascii_alphanumeric() || b"-._~:!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(user_ok) || !percent_ok(user) {
        return Err("a URL whose user part is percent-encoded");
    }
    let (host, port) = match host_port.strip_prefix('[') {
        Some(rest) => {
            let (host, port) =
                rest.rsplit_once(']').ok_or("a URL whose IPv6 address ends with ]")?;
            // The zone of an address follows `%25`, RFC 6874.
            let (address, zone) = host.split_once("%25").unwrap_or((host, "none"));
            if address.parse::<Ipv6Addr>().is_err() || zone.is_empty() {
                return Err("a URL whose IPv6 address is written [fe80::1] or [fe80::1%25eth0]");
            }
            (zone, port)
        }
        None => host_port.split_at(host_port.rfind(':').unwrap_or(host_port.len())),
    };
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err("a URL whose port is a number");
    }
    let is_name = !host_port.starts_with('[');
    let is_bad = |c: char| c.is_whitespace() || "\\^`{|}".contains(c) || (is_name && c == '%');
    if host.contains(is_bad) {
        return Err("a URL with a host name or address");
    }
    Ok(())
}

/// True if every `%` is followed by two hex digits.
fn percent_ok(text: &str) -> bool {
    let is_hex =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_hex)
}

/// The bytes that a data URL contains, or why it cannot be decoded.
pub(crate) fn data_url(url: &str) -> Result<Vec<u8>, String> {
    let rest = url.strip_prefix("data:").ok_or("no data: prefix")?;
    let head = unquoted(rest, ',').next().unwrap_or_default();
    let data = rest[head.len()..].strip_prefix(',').ok_or("no comma before the data")?;
    let mut parameters: Vec<&str> = unquoted(head, ';').collect();
    let media = parameters.remove(0);
    if !media.is_empty() && !is_media_type(media) {
        return Err(format!("media type {}", shown(media)));
    }
    let is_base64 = parameters.pop_if(|last| *last == "base64").is_some();
    if let Some(bad) = parameters.iter().find(|parameter| !is_parameter(parameter)) {
        return Err(format!("parameter {}", shown(bad)));
    }
    if is_base64 {
        return BASE64.decode(data).map_err(|_| "malformed base64".to_owned());
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"!$%&'()*+,-./:;=?@_~".contains(&b);
    if let Some(bad) = data.bytes().position(|b| !is_plain(b)) {
        return Err(format!("byte {bad} of the data must be percent-encoded"));
    }
    if !percent_ok(data) {
        return Err("% without two hex digits".to_owned());
    }
    let mut parts = data.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for (hex, rest) in parts.map(|part| part.split_at(2)) {
        bytes.extend(u8::from_str_radix(hex, 16));
        bytes.extend(rest.bytes());
    }
    Ok(bytes)
}

/// Splits at each `mark` outside a quoted string.
fn unquoted(text: &str, mark: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |c: char| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        is_escaped = c == '\\' && is_quoted;
        is_quoted ^= c == '"';
        c == mark && !is_quoted
    })
}

fn is_media_type(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, subtype)| {
        let is_known = TYPES.contains(&kind) || kind.starts_with("x-") || kind.starts_with("X-");
        is_known && is_token(kind) && (subtype.is_empty() || is_token(subtype))
    })
}

fn is_parameter(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_value = match inner {
        // Printable ASCII in which only quotes and backslashes are escaped.
        Some(inner) => {
            let rest = inner.replace("\\\\", "").replace("\\\"", "");
            rest.bytes().all(|b| matches!(b, b' '..=b'~') && !b"\"\\".contains(&b))
        }
        None => is_token(value) && percent_ok(value),
    };
    is_token(name) && is_value
}

fn is_token(text: &str) -> bool {
    let part = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&b);
    !text.is_empty() && text.bytes().all(part)
}
