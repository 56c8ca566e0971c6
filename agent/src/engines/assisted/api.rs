//! The requests of assisted-service's agent API (`swagger.yaml` of openshift/assisted-service, base path
//! `/api/assisted-install`, version 2), and the meaning of its refusals.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tracing::warn;

use super::progress::Report;
use crate::clean;
use crate::http::client::GaveUp;
use crate::http::retry::{Failed, Why, is_transient};
use crate::http::{Client, Request, Response};

/// The path of the API at the service.
const BASE_PATH: &str = "/api/assisted-install";
/// The longest output or error of a reply, in bytes.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// The longest information about the progress, in characters.
const MAX_INFO_CHARS: usize = 1000;

/// The answer to a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reply {
    /// 0 if the step was done.
    pub(super) exit_code: i64,
    /// The output that the step asked for: JSON.
    pub(super) output: String,
    /// Why it was not done.
    pub(super) error: String,
}

impl Reply {
    /// A step that was done.
    pub(super) fn done(output: &Value) -> Self {
        Self { output: output.to_string(), ..Self::default() }
    }

    /// A step that was not done. The other agent answers -1 to a step that it cannot understand.
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self { exit_code: -1, error: error.into(), output: String::new() }
    }
}

/// The service, and the names of this host there.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub(super) client: Arc<Client>,
    pub(super) infra_env_id: String,
    pub(super) host_id: String,
    /// The version of the agent, as reported to the service.
    pub(super) version: String,
}

impl Api {
    fn path(&self, rest: &str) -> String {
        let base = self.client.address_of("").unwrap_or_default();
        let base_path = if base.ends_with(BASE_PATH) { "" } else { BASE_PATH };
        format!("{base_path}/v2/{rest}")
    }

    fn of_host(&self, rest: &str) -> String {
        self.path(&format!("infra-envs/{}/hosts/{}{rest}", self.infra_env_id, self.host_id))
    }

    /// The address of the service for messages.
    pub(super) fn shown(&self) -> String {
        crate::secret::redact(&self.client.address_of("").unwrap_or_default())
    }

    /// The address of the host's Ignition config. This one path has `infra-env` in the singular.
    pub(super) fn ignition_address(&self) -> String {
        let (env, host) = (&self.infra_env_id, &self.host_id);
        let path = self.path(&format!("infra-env/{env}/hosts/{host}/downloads/ignition"));
        self.client.address_of(&path).unwrap_or_default()
    }

    /// The address of the Ignition config of the cluster's bootstrap host.
    pub(super) fn bootstrap_address(&self, cluster_id: &str) -> String {
        let query = format!("clusters/{cluster_id}/downloads/files?file_name=bootstrap.ign");
        self.client.address_of(&self.path(&query)).unwrap_or_default()
    }

    /// Registers the host. The command that the response contains starts a container, so it is ignored: this program
    /// carries out the steps itself.
    pub(super) fn register(&self) -> Result<(), Failed> {
        let body = json!({
            "host_id": self.host_id,
            "discovery_agent_version": self.version,
        });
        let path = self.path(&format!("infra-envs/{}/hosts", self.infra_env_id));
        self.call(&path, Request::post(body.to_string().into_bytes())).map(drop)
    }

    /// Asks for the next steps.
    pub(super) fn instructions(&self) -> Result<Value, Failed> {
        let now = self.client.clock.time_of_day();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let query = format!("/instructions?timestamp={}", since.as_secs());
        self.call(&self.of_host(&query), Request::get())
    }

    /// Answers a step.
    pub(super) fn reply(&self, step: &super::step::Step, reply: &Reply) -> Result<(), Failed> {
        let body = json!({
            "step_type": step.kind,
            "step_id": step.id,
            "exit_code": reply.exit_code,
            "output": cut(&reply.output),
            "error": clean::text(cut(&reply.error), MAX_OUTPUT_BYTES),
        });
        let body = Request::post(body.to_string().into_bytes());
        self.call(&self.of_host("/instructions"), body).map(drop)
    }

    /// Reports the stage of the install.
    pub(super) fn progress(&self, stage: &str, info: &str) -> Result<(), Failed> {
        let info = clean::text(info, MAX_INFO_CHARS);
        let body = json!({"current_stage": stage, "progress_info": info});
        self.call(&self.of_host("/progress"), Request::put(body.to_string().into_bytes())).map(drop)
    }

    /// Reports a stage until the service accepts it, or never will: the host is gone, or has another stage.
    pub(super) fn insist(&self, report: &Report, limit: Option<Duration>) -> Result<(), GaveUp> {
        self.client.until_success("reporting the stage", limit, || {
            match self.progress(report.stage, &report.info) {
                Err(failed) if matches!(failed.status, Some(400 | 404 | 409)) => {
                    warn!("the service refuses the stage {}: {}", report.stage, failed.message);
                    Ok(())
                }
                outcome => outcome,
            }
        })
    }

    /// Fetches the service's data on the host.
    pub(super) fn host(&self) -> Result<Value, Failed> {
        self.call(&self.of_host(""), Request::get())
    }

    /// Reports how far the collecting of logs is: `collecting` or `completed`.
    pub(super) fn logs_progress(&self, state: &str) -> Result<(), Failed> {
        let body = json!({"logs_state": state}).to_string().into_bytes();
        self.call(&self.of_host("/logs-progress"), Request::put(body)).map(drop)
    }

    /// Uploads the logs of the host.
    pub(super) fn upload_logs(
        &self,
        cluster_id: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<(), Failed> {
        let query = format!(
            "clusters/{cluster_id}/logs?logs_type=host&infra_env_id={}&host_id={}",
            self.infra_env_id, self.host_id
        );
        self.call(&self.path(&query), Request::post(body).with("Content-Type", content_type))
            .map(drop)
    }

    /// Sends a request; returns the JSON of the response, or null if it has no body.
    fn call(&self, path: &str, request: Request) -> Result<Value, Failed> {
        let response = self.client.exchange(path, &request.farewell())?;
        let address = self.client.address_of(path).unwrap_or_default();
        let address = crate::secret::redact(address.split('?').next().unwrap_or_default());
        if !(200..=299).contains(&response.status) {
            return Err(refusal(&response, &address));
        }
        if response.body.is_empty() {
            return Ok(Value::Null);
        }
        // A proxy or a captive portal answers with a page of its own.
        serde_json::from_slice(&response.body)
            .map_err(|_| Failed::unavailable(format!("{address} gave no valid answer in JSON")))
    }
}

/// The start of a text that is not too long to be posted.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_OUTPUT_BYTES)]
}

/// The failure of a request with an error status, with advice.
fn refusal(response: &Response, address: &str) -> Failed {
    let status = response.status;
    let why = if is_transient(status) { Why::Unavailable } else { Why::Refused };
    let error: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let reason = ["reason", "message"].iter().find_map(|key| error.get(key)?.as_str());
    let reason = reason.map(|text| format!(": {}", clean::text(text, 200)));
    let advice = match status {
        300..=399 => "; configure the address that it redirects to",
        401 | 403 => "; the file of --token-file must contain the token of the infra-env",
        404 => "; check --infra-env-id and the address of the service",
        409 => "; the service does not accept this host in its present state",
        _ => "",
    };
    let message = format!("{address} responded {status}{}{advice}", reason.unwrap_or_default());
    let retry_after = response.retry_after;
    Failed { why, retry_after, status: Some(status), ..Failed::network(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_both_forms_name_their_reason_and_what_to_do() {
        for (status, body, expected) in [
            (401, r#"{"code":401,"message":"bad token"}"#, ": bad token; the file of --token-file"),
            (404, r#"{"code":"404","reason":"no env"}"#, ": no env; check --infra-env-id"),
            (409, "<html>", "responded 409; the service does not accept this host"),
        ] {
            let response = Response { status, body: body.into(), ..Response::default() };
            let failed = refusal(&response, "https://a.example/x");
            assert!(failed.message.contains(expected), "{}", failed.message);
            assert_eq!((failed.why, failed.status), (Why::Refused, Some(status)));
        }
        let busy = Response { status: 503, ..Response::default() };
        assert_eq!(refusal(&busy, "a").why, Why::Unavailable);
    }
}
