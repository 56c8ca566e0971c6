//! Resources that Ignition fetches, with their compression, digest and HTTP headers.
//!
//! Sources: Ignition `config/v3_*/types/{url,resource,verification,headers}.go`.

use serde_json::Value;

use super::at::At;
use super::findings::Findings;
use crate::digest;
use crate::text::shown_url;
use crate::url::{data_url, url_form};

/// Places of resources in a config.
const RESOURCES: &str = "ignition.config.merge.* ignition.config.replace \
     ignition.security.tls.certificateAuthorities.* storage.files.*.contents storage.files.*.append.* \
     storage.luks.*.keyFile";

/// True if Ignition may need the network for a valid config.
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

pub(super) fn rules(root: &At<'_>, findings: &mut Findings) {
    for at in RESOURCES.split(' ').flat_map(|place| root.each(place)) {
        resource(&at, findings);
    }
}

fn resource(at: &At<'_>, findings: &mut Findings) {
    let source = at.str("source");
    if let Some(at) = at.get("source").filter(|at| !at.text().is_empty())
        && let Err(expected) = source_form(at.text(), findings.minor)
    {
        findings.bad_text(&at, &expected);
    }
    if let Some(at) = at.get("compression").filter(|at| !["", "gzip"].contains(&at.text())) {
        findings.bad_text(&at, "\"gzip\", or nothing");
    }
    if let Some(at) = at.get("verification").and_then(|at| at.get("hash")) {
        if source.is_none() {
            findings.problem(&at.path, "a hash without a source", "a source as well");
        }
        if let Err(expected) = digest::check_form(at.text(), findings.minor >= 1) {
            findings.bad_text(&at, expected);
        }
    }
    if at.has_items("httpHeaders") {
        headers(at, source, findings);
    }
}

fn headers(at: &At<'_>, source: Option<&str>, findings: &mut Findings) {
    let scheme = source.and_then(|url| url.split_once(':')).map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https")) {
        let found = source.map_or("headers without a source".to_owned(), shown_url);
        findings.problem(&format!("{}.httpHeaders", at.path), found, "an http or https source");
    }
    for at in at.items("httpHeaders") {
        if at.filled("name").is_none() {
            findings.missing(&at, "name", "the name of an HTTP header");
        }
        if at.str("value") == Some("") {
            findings.missing(&at, "value", "a value, or none at all");
        }
    }
}

/// Checks the form of a source URL, and that the spec version allows its scheme.
fn source_form(url: &str, minor: u64) -> Result<(), String> {
    match url_form(url)?.as_str() {
        "http" | "https" | "tftp" => Ok(()),
        "gs" if minor >= 2 => Ok(()),
        "s3" => version_id(url),
        "arn" if minor >= 4 => arn(url),
        "data" => {
            let decoded = data_url(url).map(drop);
            decoded.map_err(|why| format!("a data URL that can be decoded ({why})"))
        }
        _ => {
            let newer = match minor {
                0 | 1 => "",
                2 | 3 => ", gs",
                _ => ", gs, arn",
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
