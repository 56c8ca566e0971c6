//! Data URLs: `data:[type/subtype][;attribute=value]*[;base64],data`.
//!
//! Source: RFC 2397, and RFC 2045 for the parameters, as strict as Ignition's decoder
//! (vincent-petithory/dataurl); the cases in `cases.txt` were verified with the real program.

use super::source::percent_ok;
use crate::text::shown;

/// Types that the decoder knows in addition to those that start with `x-`.
const TYPES: [&str; 7] = ["application", "audio", "image", "message", "multipart", "text", "video"];

/// Says why a data URL cannot be decoded.
pub(super) fn data_url(url: &str) -> Result<(), String> {
    let Some(rest) = url.strip_prefix("data:") else { return Err("no data: prefix".to_owned()) };
    let (head, data) = split_unquoted(rest, b',').ok_or("no comma before the data")?;
    let (media, mut parameters) = match split_unquoted(head, b';') {
        Some((media, rest)) => (media, Some(rest)),
        None => (head, None),
    };
    if !media.is_empty() && !is_media_type(media) {
        return Err(format!("media type {}", shown(media)));
    }
    let mut is_base64 = false;
    while let Some(rest) = parameters {
        let (one, next) = match split_unquoted(rest, b';') {
            Some((one, next)) => (one, Some(next)),
            None => (rest, None),
        };
        is_base64 = one == "base64" && next.is_none();
        if !is_base64 && !is_parameter(one) {
            return Err(format!("parameter {}", shown(one)));
        }
        parameters = next;
    }
    if is_base64 { base64_form(data) } else { percent_form(data) }
}

/// Splits at the first `mark` outside a quoted string.
fn split_unquoted(text: &str, mark: u8) -> Option<(&str, &str)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == mark && !is_quoted => return Some((&text[..i], &text[i + 1..])),
            _ => {}
        }
    }
    None
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
        Some(inner) => is_quoted_text(inner),
        None => is_token(value) && percent_ok(value),
    };
    is_token(name) && is_value
}

/// Whether this is the inside of a quoted string: printable ASCII in which quotes are escaped with a backslash.
fn is_quoted_text(text: &str) -> bool {
    let mut is_escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return false,
            b' '..=b'~' => {}
            _ => return false,
        }
    }
    !is_escaped
}

fn is_token(text: &str) -> bool {
    let part = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&b);
    !text.is_empty() && text.bytes().all(part)
}

fn base64_form(data: &str) -> Result<(), String> {
    let digits = data.trim_end_matches('=');
    let n_padding = data.len() - digits.len();
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    if let Some(bad) = digits.bytes().position(|b| !is_digit(b)) {
        return Err(format!("byte {bad} of the base64 data is none of A-Z a-z 0-9 + /"));
    }
    if !data.len().is_multiple_of(4) || n_padding > 2 || (digits.is_empty() && n_padding > 0) {
        return Err("the base64 data is not padded to a multiple of 4".to_owned());
    }
    Ok(())
}

fn percent_form(data: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!$%&'()*+,-./:;=?@_~".contains(&b);
    if let Some(bad) = data.bytes().position(|b| !plain(b)) {
        return Err(format!("byte {bad} of the data must be percent-encoded"));
    }
    if percent_ok(data) { Ok(()) } else { Err("% without two hex digits".to_owned()) }
}
