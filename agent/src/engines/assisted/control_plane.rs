//! The API server of a new cluster, at the addresses and with the credentials of the kubeconfigs of its bootstrap host
//! (Kubernetes, `client-go/tools/clientcmd/api/v1`).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::act::Site;
use crate::http::transport::Timeouts;
use crate::http::{Client, Request, ServerSettings};
use crate::{bounded, clean, whole_file};

/// The kubeconfigs that the bootstrap config contains. The first leads to the cluster, the second to this host, whose
/// API server ends before the bootstrap does.
const FILES: [&str; 2] =
    ["opt/openshift/auth/kubeconfig", "opt/openshift/auth/kubeconfig-loopback"];
/// Largest kubeconfig, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Time limit of each part of a request; it is repeated anyway.
const LIMIT: Duration = Duration::from_secs(3);
/// The nodes of the control plane.
const MASTERS: &str = "/api/v1/nodes?labelSelector=node-role.kubernetes.io/master";

/// The connections to the control plane.
#[derive(Debug)]
pub(super) struct ControlPlane(Vec<Client>);

impl ControlPlane {
    /// Reads the kubeconfigs.
    ///
    /// # Errors
    /// A message: there is none, or one of them cannot be used.
    pub(super) fn open(site: &Site) -> Result<Self, String> {
        let paths = FILES.map(|file| site.system.root().join(file));
        let there = paths.iter().filter(|path| path.exists());
        let clients: Result<Vec<Client>, String> = there
            .map(|path| {
                client(path, site).map_err(|error| format!("{}: {error:#}", path.display()))
            })
            .collect();
        match clients? {
            none if none.is_empty() => {
                Err(format!("neither /{} nor /{} exists", FILES[0], FILES[1]))
            }
            clients => Ok(Self(clients)),
        }
    }

    /// The names of the masters that are ready, as the first server lists them that responds.
    ///
    /// # Errors
    /// A message of each server.
    pub(super) fn ready_masters(&self) -> Result<Vec<String>, String> {
        let mut failures = Vec::new();
        for client in &self.0 {
            match nodes(client) {
                Ok(nodes) => return Ok(ready(&nodes)),
                Err(failure) => failures.push(failure),
            }
        }
        Err(failures.join("; "))
    }
}

fn nodes(client: &Client) -> Result<Value, String> {
    let response = client.exchange(MASTERS, &Request::get()).map_err(|failed| failed.message)?;
    let status = response.status;
    let nodes = serde_json::from_slice(&response.body).ok().filter(|_| status == 200);
    let address = client.address_of("").unwrap_or_default();
    nodes.ok_or_else(|| format!("{address} responded {status} to a request for nodes"))
}

/// The nodes of a `NodeList` with the condition `Ready`.
fn ready(nodes: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_ready = |node: &Value| {
        let is_it = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        list(&node["status"]["conditions"]).iter().any(is_it)
    };
    let nodes = list(&nodes["items"]).into_iter().filter(is_ready);
    let name = |node: Value| Some(clean::text(node["metadata"]["name"].as_str()?, 253));
    nodes.filter_map(name).collect()
}

/// A client with the settings of the current context. Its keys are in files as long as they are read.
fn client(path: &Path, site: &Site) -> anyhow::Result<Client> {
    let bytes = bounded::read_file(path, MAX_BYTES)?;
    // The error would quote the file.
    let config: Value =
        yaml_serde::from_slice(&bytes).map_err(|_| anyhow::anyhow!("it is not valid YAML"))?;
    let named = |list: &str, kind: &str, name: &Value| {
        let entries = config[list].as_array().into_iter().flatten();
        entries.into_iter().find(|entry| entry["name"] == *name).map(|entry| entry[kind].clone())
    };
    let context = named("contexts", "context", &config["current-context"]).unwrap_or_default();
    let cluster = named("clusters", "cluster", &context["cluster"]).unwrap_or_default();
    let user = named("users", "user", &context["user"]).unwrap_or_default();
    let server = cluster["server"].as_str();
    let server = server.ok_or_else(|| anyhow::anyhow!("its current context names no server"))?;
    let mut files = Vec::new();
    let mut file = |content: &[u8]| -> anyhow::Result<PathBuf> {
        let mut file: NamedTempFile = whole_file::begin(&site.run_dir.join("kubeconfig"), 0o600)?;
        file.write_all(content)?;
        let path = file.path().to_owned();
        files.push(file);
        Ok(path)
    };
    let mut decoded = |from: &Value, key: &str| -> anyhow::Result<Option<PathBuf>> {
        let Some(text) = from[key].as_str() else { return Ok(None) };
        let bytes =
            STANDARD.decode(text).map_err(|_| anyhow::anyhow!("its {key} is not valid base64"))?;
        file(&bytes).map(Some)
    };
    let mut settings = ServerSettings {
        ca_file: decoded(&cluster, "certificate-authority-data")?,
        client_cert_file: decoded(&user, "client-certificate-data")?,
        client_key_file: decoded(&user, "client-key-data")?,
        timeouts: Timeouts {
            resolve: LIMIT,
            connect: LIMIT,
            send: LIMIT,
            headers: LIMIT,
            body: LIMIT,
            ignition: LIMIT,
            ..Timeouts::default()
        },
        ..ServerSettings::new(server)
    };
    settings.token_file = user["token"].as_str().map(|token| file(token.as_bytes())).transpose()?;
    let system = &site.system;
    Client::new(&settings, Arc::clone(system.clock()), system.stop().clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_nodes_whose_condition_ready_is_true_count() {
        let node = |name: &str, kind: &str, status: &str| {
            json!({"metadata": {"name": name}, "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"}, {"type": kind, "status": status},
            ]}})
        };
        let nodes = json!({"items": [
            node("a", "Ready", "True"), node("b", "Ready", "Unknown"), node("c", "DiskPressure", "True"),
            {"metadata": {"name": "d"}}, node("e", "Ready", "True"), 7,
        ]});
        assert_eq!(ready(&nodes), ["a", "e"]);
        for odd in [json!(null), json!([]), json!({"items": null})] {
            assert!(ready(&odd).is_empty());
        }
    }
}
