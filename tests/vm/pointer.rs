//! A pointer config, as for masters that join a cluster: the installed system fetches the rest of its Ignition config from a
//! machine-config server with a CA of its own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::install::percent;
use crate::lab::Lab;

/// Replaces the config that the lab VIM returns by one that points at `/files/config/master` of its HTTPS port.
pub(crate) fn write(folder: &Path, lab: &Lab) -> Result<()> {
    let ca = std::fs::read_to_string(folder.join("tls/ca.pem"))?;
    let ca = format!("data:,{}", percent(&ca));
    let pointer = json!({
        "ignition": {
            "version": "3.1.0",
            "config": {"merge": [{"source": format!("{}/files/config/master", lab.url_https()?)}]},
            "security": {"tls": {"certificateAuthorities": [{"source": ca}]}},
        },
        "storage": {"files": [
            {"path": "/etc/pointer", "mode": 0o644, "contents": {"source": "data:,pointer"}},
        ]},
    });
    Ok(std::fs::write(folder.join("target.ign"), pointer.to_string())?)
}

/// Checks that Ignition, and nothing else, fetched the config.
pub(crate) fn check(lab: &Lab) -> Result<()> {
    let requests = lab.requests()?;
    let fetch = requests
        .as_array()
        .and_then(|all| all.iter().find(|request| request["path"] == "/files/config/master"))
        .context("nothing asked for the config")?;
    let accept = fetch["headers"]["accept"].as_str().unwrap_or_default();
    ensure!(
        fetch["tls"] == true
            && accept.starts_with("application/vnd.coreos.ignition+json;version=3."),
        "the request was {fetch:#}"
    );
    Ok(())
}
