//! The logs of the host as the service collects them: a `tar.gz` in a form for uploads (RFC 7578).
//!
//! It contains the report, the result of the install and this program's own log. Secrets are concealed in all of them.

use std::path::PathBuf;

use serde_json::Value;

use super::api::Api;
use super::step::Step;
use super::tasks::Around;
use crate::archive::tar_gz;
use crate::clean::RecentLog;
use crate::{bounded, clean, random};

/// Largest file of the archive.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The sources of the archive.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// The report as JSON.
    pub(super) report: Vec<u8>,
    /// The file with the result of the last install.
    pub(super) result: PathBuf,
    /// This program's log.
    pub(super) log: RecentLog,
}

/// The step `logs-gather`.
pub(super) fn gather(step: &Step, around: &Around) -> Result<Value, String> {
    // Older services give options of a command instead of JSON.
    let of_json = step.json(0).ok().and_then(|args| args.get("cluster_id").cloned());
    let is_other = |arg: &&String| !["-cluster-id", "--cluster-id"].contains(&arg.as_str());
    let after_option = || step.args.iter().skip_while(is_other).nth(1).cloned().map(Value::from);
    let cluster_id = of_json.or_else(after_option).unwrap_or_default();
    let cluster_id = cluster_id.as_str().unwrap_or_default();
    upload(&around.api, cluster_id, &around.logs)?;
    Ok(Value::Null)
}

/// Uploads the logs and reports that it does.
///
/// # Errors
/// A message with the fault.
pub(super) fn upload(api: &Api, cluster_id: &str, sources: &Sources) -> Result<(), String> {
    if formats::guid::parse(cluster_id).is_none() {
        return Err(clean::unexpected("the id of the cluster", cluster_id, 64, "a UUID"));
    }
    let archive = archive(sources).map_err(|error| format!("packing the logs: {error}"))?;
    // Progress is for people; without it the logs are uploaded as well.
    api.logs_progress("collecting").ok();
    let (content_type, body) = form(&api.host_id, &archive);
    api.upload_logs(cluster_id, &content_type, body).map_err(|failed| failed.message)?;
    api.logs_progress("completed").ok();
    Ok(())
}

fn archive(sources: &Sources) -> std::io::Result<Vec<u8>> {
    let result = bounded::read_file(&sources.result, MAX_FILE_BYTES).unwrap_or_default();
    tar_gz(&[
        ("report.json", &concealed(&sources.report)),
        ("result.json", &concealed(&result)),
        ("agent.log", sources.log.text().as_bytes()),
    ])
}

/// A JSON document without secrets; nothing if it is none.
fn concealed(json: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(json) else { return Vec::new() };
    clean::json(&mut value);
    value.to_string().into_bytes()
}

/// The content type and the body of a form with one file.
fn form(host_id: &str, archive: &[u8]) -> (String, Vec<u8>) {
    let boundary = format!("run-coreos-installer-{}", random::uuid());
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"{host_id}.tar.gz\"\r\n\
         Content-Type: application/gzip\r\n\r\n"
    );
    let body = [head.as_bytes(), archive, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    (format!("multipart/form-data; boundary={boundary}"), body)
}
