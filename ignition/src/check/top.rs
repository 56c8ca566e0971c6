//! Rules of `ignition`, `passwd` and `kernelArguments`, and the order in which sections are checked.
//!
//! Sources: Ignition `config/v3_*/types/{ignition,proxy,passwd,kargs}.go`.

use serde_json::Value;

use super::at::{At, refuse_duplicates};
use super::findings::Findings;
use super::{disks, source, storage, systemd};
use crate::text::{shown, shown_url};

/// Applies every rule to a config with valid types.
pub(super) fn rules(config: &Value, findings: &mut Findings) {
    let root = At { value: config, path: "$".to_owned() };
    if let Some(at) = root.get("ignition") {
        ignition(&at, findings);
    }
    if let Some(at) = root.get("kernelArguments") {
        kernel_arguments(&at, findings);
    }
    if let Some(at) = root.get("passwd") {
        passwd(&at, findings);
    }
    if let Some(at) = root.get("storage") {
        storage::rules(&at, findings);
        disks::rules(&at, findings);
    }
    if let Some(at) = root.get("systemd") {
        systemd::rules(&at, findings);
    }
    storage::refuse_unit_files(&root, findings);
}

fn ignition(at: &At<'_>, findings: &mut Findings) {
    if let Some(at) = at.get("config") {
        source::required_resources(&at, "merge", findings);
        if let Some(at) = at.get("replace") {
            source::resource(&at, findings);
        }
    }
    if let Some(at) = at.get("proxy") {
        proxy(&at, findings);
    }
    if let Some(at) = at.get("security").and_then(|at| at.get("tls")) {
        source::required_resources(&at, "certificateAuthorities", findings);
    }
}

fn proxy(at: &At<'_>, findings: &mut Findings) {
    for key in ["httpProxy", "httpsProxy"] {
        let Some(at) = at.get(key) else { continue };
        let url = at.text().unwrap_or_default();
        match source::url_form(url).as_deref() {
            Ok("http") if key == "httpsProxy" => {
                findings.warning(&at.path, "HTTPS goes through a proxy over plain HTTP");
            }
            Ok("http" | "https") => {}
            _ => findings.problem(&at.path, shown_url(url), "a URL with scheme http or https"),
        }
    }
    refuse_duplicates(at.items("noProxy"), findings, At::text);
}

/// A kernel argument may occur once, in one of the two lists.
fn kernel_arguments(at: &At<'_>, findings: &mut Findings) {
    let both = at.items("shouldExist").chain(at.items("shouldNotExist"));
    refuse_duplicates(both, findings, At::text);
}

fn passwd(at: &At<'_>, findings: &mut Findings) {
    refuse_duplicates(at.items("groups"), findings, |at| at.str("name"));
    refuse_duplicates(at.items("users"), findings, |at| at.str("name"));
    for list in ["groups", "users"] {
        for at in at.items(list) {
            password(&at, findings);
            if at.filled("name").is_none() {
                findings.problem(&format!("{}.name", at.path), "empty", "a name");
            }
        }
    }
    for at in at.items("users") {
        refuse_duplicates(at.items("groups"), findings, At::text);
        refuse_duplicates(at.items("sshAuthorizedKeys"), findings, At::text);
    }
}

/// Ignition writes the hash unchanged, so a plain password locks the user out.
fn password(at: &At<'_>, findings: &mut Findings) {
    let is_hash = |hash: &str| hash.starts_with(['$', '!', '*', '_']) || hash.len() == 13;
    if at.filled("passwordHash").is_some_and(|hash| !is_hash(hash)) {
        let name = shown(at.str("name").unwrap_or_default());
        let message = format!("of {name} is not a crypt(5) hash");
        findings.warning(&format!("{}.passwordHash", at.path), message);
    }
}
