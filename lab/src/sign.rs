//! Signs the answers of VIM API v1 with Ed25519, for nodes with `--vim-key`; `docs/wire.md` describes the signed bytes.

use std::path::Path;

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::Value;

use crate::http::{Answer, Refusal, Request, full, gunzip, header, set_header};
use crate::tls::kept_key;

/// The VIM's key.
#[derive(Debug)]
pub(crate) struct Signer(KeyPair);

impl Signer {
    /// Reads the private key in a PEM file; a new one if there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read or written, or contains another kind of key.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let key = kept_key(path, &PKCS_ED25519)?;
        let is_right = key.is_compatible(&PKCS_ED25519);
        ensure!(is_right, "{} holds another kind of key, expected Ed25519", path.display());
        Ok(Self(key))
    }

    /// The public key, as `--vim-key` expects it.
    pub(crate) fn public_key(&self) -> String {
        STANDARD.encode(self.0.public_key_raw())
    }

    /// Signs an answer, if the request has a nonce.
    pub(crate) async fn sign(&self, request: &Request, limit: usize, answer: Answer) -> Answer {
        let Some(nonce) = header(&request.headers, "rci-nonce") else { return answer };
        let (head, body) = answer.into_parts();
        let broken = |text: String| Refusal::new(500, "SIGNATURE", text).answer();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return broken(format!("reading the answer: {error}")),
        };
        let path = match &request.query {
            Some(query) => format!("{}?{query}", request.path),
            None => request.path.clone(),
        };
        let of = |name| header(&head.headers, name).unwrap_or_default();
        let (node, status) = (node_of(request, limit), head.status.as_u16());
        let lines = format!(
            "RCI-ANSWER-1\n{}\n{path}\n{node}\n{nonce}\n{status}\n{}\n{}\n{}\n",
            request.method,
            of("content-type").to_ascii_lowercase(),
            of("location"),
            of("retry-after")
        );
        let signature = match self.0.sign(&[lines.as_bytes(), &body].concat()) {
            Ok(signature) => STANDARD.encode(signature),
            Err(error) => return broken(format!("signing the answer: {error}")),
        };
        let mut answer = Answer::from_parts(head, full(body));
        set_header(&mut answer, "rci-signature", &signature);
        answer
    }
}

/// The node that a request is about: in its path, or in the report. A name of another form could imitate other lines of the
/// signed bytes.
fn node_of(request: &Request, limit: usize) -> String {
    let body = match header(&request.headers, "content-encoding") {
        Some("gzip") => gunzip(&request.body, limit).unwrap_or_default(),
        _ => request.body.clone(),
    };
    let in_path = request.path.strip_prefix("/v1/nodes/").and_then(|rest| rest.split('/').next());
    let report: Value = serde_json::from_slice(&body).unwrap_or_default();
    let node = in_path.or(report["node_id"].as_str()).unwrap_or_default();
    let is_name = node.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name { node.to_owned() } else { String::new() }
}
