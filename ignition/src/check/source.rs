//! Resources: what Ignition fetches, with its compression, digest and HTTP headers.
//!
//! Sources: Ignition `config/v3_*/types/{url,resource,verification,headers}.go`; URLs follow the
//! grammar of Go's `net/url`.

use serde_json::Value;

use super::at::{At, refuse_duplicates};
use super::data_url::data_url;
use super::findings::Findings;
use crate::digest;
use crate::text::shown_url;

/// Whether Ignition may need the network for a valid config.
///
/// Source: `configNeedsNet` in Ignition `internal/exec/stages/fetch_offline/fetch-offline.go`. A config that this one
/// merges from a data URL is not read here, and may fetch.
pub(super) fn may_fetch(config: &Value) -> bool {
    match config {
        Value::Array(values) => values.iter().any(may_fetch),
        Value::Object(fields) => fields.iter().any(|(key, value)| match key.as_str() {
            "source" => {
                value.as_str().is_some_and(|url| !url.is_empty() && !url.starts_with("data:"))
            }
            "merge" | "tang" => value.as_array().is_some_and(|list| !list.is_empty()),
            "replace" => value.get("source").is_some_and(Value::is_string),
            "needsNetwork" => *value == Value::Bool(true),
            _ => may_fetch(value),
        }),
        _ => false,
    }
}

/// Checks a resource whose source is optional.
pub(super) fn resource(at: &At<'_>, findings: &mut Findings) {
    let source = at.str("source");
    if let Some(at) = at.get("source").filter(|_| source != Some("")) {
        self::source(&at, findings);
    }
    if let Some(at) = at.get("compression")
        && !matches!(at.text(), Some("" | "gzip"))
    {
        findings.bad_text(&at, "\"gzip\", or nothing");
    }
    if let Some(at) = at.get("verification").and_then(|at| at.get("hash")) {
        hash(&at, source, findings);
    }
    headers(at, source, findings);
}

/// Checks a resource that requires a source.
pub(super) fn required_resource(at: &At<'_>, findings: &mut Findings) {
    resource(at, findings);
    if at.filled("source").is_none() {
        findings.problem(&format!("{}.source", at.path), "missing", "a URL");
    }
}

/// Checks a list of resources without repeated sources.
pub(super) fn required_resources(at: &At<'_>, key: &str, findings: &mut Findings) {
    at.items(key).for_each(|at| required_resource(&at, findings));
    refuse_duplicates(at.items(key), findings, |at| at.filled("source"));
}

fn hash(at: &At<'_>, source: Option<&str>, findings: &mut Findings) {
    if source.is_none() {
        findings.problem(&at.path, "a hash without a source", "a source as well");
    }
    if let Err(expected) = digest::check_form(at.text().unwrap_or_default(), findings.minor >= 1) {
        findings.bad_text(at, expected);
    }
}

fn headers(at: &At<'_>, source: Option<&str>, findings: &mut Findings) {
    if !at.has_items("httpHeaders") {
        return;
    }
    let scheme = source.and_then(|url| url.split_once(':')).map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https")) {
        let found = source.map_or("headers without a source".to_owned(), shown_url);
        findings.problem(&format!("{}.httpHeaders", at.path), found, "an http or https source");
    }
    for at in at.items("httpHeaders") {
        if at.filled("name").is_none() {
            findings.problem(&format!("{}.name", at.path), "empty", "the name of an HTTP header");
        }
        if at.str("value") == Some("") {
            findings.problem(&format!("{}.value", at.path), "empty", "a value, or none at all");
        }
    }
    refuse_duplicates(at.items("httpHeaders"), findings, |at| at.str("name"));
}

/// Checks the form of a source URL, and that the spec version allows its scheme.
pub(super) fn source(at: &At<'_>, findings: &mut Findings) {
    let url = at.text().unwrap_or_default();
    if let Err(expected) = source_form(url, findings.minor) {
        findings.problem(&at.path, shown_url(url), &expected);
    }
}

fn source_form(url: &str, minor: u64) -> Result<(), String> {
    let scheme = url_form(url)?;
    match scheme.as_str() {
        "http" | "https" | "tftp" => Ok(()),
        "gs" if minor >= 2 => Ok(()),
        "s3" => version_id(url),
        "arn" if minor >= 4 => arn(url),
        "data" => data_url(url).map_err(|why| format!("a data URL that can be decoded ({why})")),
        _ => {
            let newer = if minor >= 4 {
                ", gs, arn"
            } else if minor >= 2 {
                ", gs"
            } else {
                ""
            };
            Err(format!("a URL with scheme http, https, tftp, s3, data{newer} (spec 3.{minor}.0)"))
        }
    }
}

fn version_id(url: &str) -> Result<(), String> {
    let query = url.split_once('?').map_or("", |(_, rest)| rest.split('#').next().unwrap_or(""));
    match query.split('&').find_map(|pair| pair.strip_prefix("versionId")) {
        Some("" | "=") => Err("a versionId that is not empty".to_owned()),
        _ => Ok(()),
    }
}

fn arn(url: &str) -> Result<(), String> {
    let bare = url.split('?').next().unwrap_or(url);
    let parts: Vec<&str> = bare.splitn(6, ':').collect();
    let [_, partition, service, _, _, resource] = parts.as_slice() else {
        return Err("an S3 object as arn:aws:s3:::bucket/key".to_owned());
    };
    let n_slashes = resource.matches('/').count();
    let needed = if resource.starts_with("accesspoint/") { 2 } else { 1 };
    if partition.is_empty() || *service != "s3" || n_slashes < needed {
        return Err("an S3 object as arn:aws:s3:::bucket/key".to_owned());
    }
    version_id(url)
}

/// Checks a URL as Go's `net/url` does and returns its scheme in lower case.
pub(crate) fn url_form(url: &str) -> Result<String, String> {
    if url.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("a URL without control characters".to_owned());
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err("a URL with a scheme".to_owned());
    };
    let first_is_letter = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut others = scheme.bytes();
    if !first_is_letter || !others.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) {
        return Err("a URL with a scheme of letters".to_owned());
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
        return Err("a URL in which % is followed by two hex digits".to_owned());
    }
    authority_form(authority)?;
    Ok(scheme.to_ascii_lowercase())
}

fn authority_form(authority: &str) -> Result<(), String> {
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_ok = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(user_ok) || !percent_ok(user) {
        return Err("a URL whose user part is percent-encoded".to_owned());
    }
    let (host, port) = match host_port.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.rsplit_once(']') else {
                return Err("a URL whose IPv6 address ends with ]".to_owned());
            };
            zone_form(host)?;
            (host, after)
        }
        None => match host_port.rfind(':') {
            Some(colon) => host_port.split_at(colon),
            None => (host_port, ""),
        },
    };
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err("a URL whose port is a number".to_owned());
    }
    let in_brackets = host_port.starts_with('[');
    let bad = |c: char| c.is_whitespace() || "\\^`{|}".contains(c) || (!in_brackets && c == '%');
    if host.contains(bad) {
        return Err("a URL with a host name or address".to_owned());
    }
    Ok(())
}

/// The zone of an IPv6 address follows `%25`, RFC 6874.
fn zone_form(host: &str) -> Result<(), String> {
    match host.find('%') {
        Some(at) if !host[at..].starts_with("%25") => {
            Err("a URL whose IPv6 zone is written %25eth0, not %eth0".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether every `%` is followed by two hex digits.
pub(super) fn percent_ok(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}
