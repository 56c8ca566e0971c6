//! Signed answers of a VIM: with `--vim-key` only an answer that the VIM has signed for this very request is obeyed.
//!
//! The signature is Ed25519 (RFC 8032), verified by the provider of the TLS library. `docs/wire.md` describes the signed
//! bytes.

use std::fmt;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::hex::hex;
use rustls::SignatureScheme;
use tracing::{info, warn};

use super::client::Client;
use super::request::{Request, Response};
use super::retry::Failed;
use super::url::Url;
use crate::random::random_bytes;

/// The header with the nonce of a request.
const NONCE: &str = "RCI-Nonce";
/// The header with the signature of the answer.
pub(super) const SIGNATURE: &str = "rci-signature";
/// The first line of the signed bytes: their form, so that no other signature of this key fits.
const FORM: &str = "RCI-ANSWER-1";
/// Length of a nonce, in bytes.
const NONCE_BYTES: usize = 16;
/// The bytes before those of an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410, §4).
const KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The base64 of the bytes before those of a private Ed25519 key in PKCS #8 (RFC 8410, §7).
const PRIVATE_KEY: &str = "MC4CAQAwBQYDK2Vw";

/// The public key that verifies the answers of a VIM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VimKey([u8; 32]);

impl VimKey {
    /// Parses the base64 line of a public key in PEM, as `openssl pkey -pubout` prints it, or base64 of its 32 bytes.
    ///
    /// # Errors
    /// The expected form if the text has another one.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains(PRIVATE_KEY) {
            return Err(
                "this is the VIM's private key, which nobody else may have: replace it, and give the public one, \
                        which openssl pkey -pubout prints",
            );
        }
        let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
        let key = bytes.strip_prefix(&KEY_INFO).unwrap_or(&bytes);
        key.try_into().map(Self).map_err(|_| {
            "expected an Ed25519 public key: the base64 line between BEGIN and END that openssl pkey -pubout prints"
        })
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let ed25519 = |(scheme, _): &&(SignatureScheme, _)| *scheme == SignatureScheme::ED25519;
        let mut known = algorithms.mapping.iter().filter(ed25519).flat_map(|(_, all)| *all);
        known.any(|algorithm| algorithm.verify_signature(&self.0, signed, signature).is_ok())
    }
}

impl fmt::Display for VimKey {
    /// Writes the base64 of the key's bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

/// The bytes that the VIM signs: lines with the facts of the request and the answer, then the body.
fn signed_bytes(
    request: &Request,
    url: &Url,
    node_id: &str,
    nonce: &str,
    answer: &Response,
) -> Vec<u8> {
    let (method, status) = (request.method.as_str(), answer.status.to_string());
    let location = answer.location.as_deref().unwrap_or_default();
    let retry_after = answer.retry_after_text.as_deref().unwrap_or_default();
    let of_request = [FORM, method, url.target(), node_id, nonce];
    let of_answer = [&status, answer.content_type.as_str(), location, retry_after, ""];
    let lines = [of_request, of_answer].concat().join("\n");
    [lines.as_bytes(), &answer.body].concat()
}

impl Client {
    /// Sends a request about the node `node_id` to the VIM. With `--vim-key`, a response is a failure unless it is signed
    /// for this request.
    ///
    /// # Errors
    /// There was no response, or it is not signed as it must be. Nothing that it says counts then, except for its `Date`,
    /// which is only compared with the clock.
    pub(crate) fn ask(
        &self,
        url: &Url,
        request: &Request,
        node_id: &str,
        max_bytes: u64,
    ) -> Result<Response, Failed> {
        let Some(key) = &self.settings.vim_key else { return self.send(url, request, max_bytes) };
        let nonce = random_bytes::<NONCE_BYTES>().map_err(|error| {
            Failed::network(format!("the kernel gives no random number for a nonce: {error}"))
        })?;
        let nonce = hex(&nonce);
        let request = request.clone().with(NONCE, nonce.as_str());
        let answer = self.send(url, &request, max_bytes)?;
        if answer.is_cut {
            let what = "the response is too large, so its signature cannot be checked";
            let message = format!("{} gave no valid answer: {what}", url.shown());
            return Err(Failed { may_have_arrived: true, ..Failed::unavailable(message) });
        }
        let signature = STANDARD.decode(answer.signature.as_deref().unwrap_or_default());
        let signed = signed_bytes(&request, url, node_id, &nonce, &answer);
        let is_signed = signature.is_ok_and(|signature| key.verifies(&signed, &signature));
        self.note_signature(is_signed);
        if is_signed {
            return Ok(answer);
        }
        let found = match answer.signature {
            None => "without a signature",
            Some(_) => "with a signature that is not the VIM's for this request",
        };
        let (address, status) = (url.shown(), answer.status);
        let message = format!("{address} responded {status} {found}, which is not obeyed");
        Err(Failed { may_have_arrived: true, ..Failed::unavailable(message) })
    }

    /// Logs when answers are no longer signed, and when they are again.
    fn note_signature(&self, is_signed: bool) {
        match (self.is_unsigned.swap(!is_signed, Ordering::Relaxed), is_signed) {
            (false, false) => warn!(
                "the VIM's answers are not signed with the key in --vim-key, so none is obeyed; check that the VIM signs \
                 them, that the key is the VIM's, and that nothing on the way answers in its place"
            ),
            (true, true) => info!("the VIM's answers are signed with the key in --vim-key again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::url::Zones;

    #[test]
    fn example_of_the_wire_page_is_what_the_agent_verifies() {
        let page = include_str!("../../../docs/wire.md");
        let after = |start: &str| page.split(start).nth(1).unwrap();
        let example = after("```text\nRCI-ANSWER-1\n").split("\n```").next().unwrap();
        let in_code = |start: &str| after(start).split('`').next().unwrap();
        let key = VimKey::parse(in_code("Public key: `")).unwrap();
        let signature = STANDARD.decode(in_code("Signature: `")).unwrap();
        let url = Url::parse("http://vim.example/v1/nodes/node-7/instruction", &Zones::default());
        let nonce = "000102030405060708090a0b0c0d0e0f";
        let answer = Response {
            status: 200,
            content_type: "application/json".into(),
            body: br#"{"api_version":"1","request_id":"r1","action":"reboot"}"#.to_vec(),
            ..Response::default()
        };
        let signed = signed_bytes(&Request::get(), &url.unwrap(), "node-7", nonce, &answer);
        assert_eq!(String::from_utf8(signed.clone()).unwrap(), format!("RCI-ANSWER-1\n{example}"));
        assert!(key.verifies(&signed, &signature));
        assert!(!key.verifies(&signed[1..], &signature) && !key.verifies(&signed, &[]));
        assert_eq!(VimKey::parse(&key.to_string()), Ok(key));
        for text in ["", "ssh-ed25519 AAAA", "MCowBQYDK2Vw"] {
            assert!(VimKey::parse(text).is_err(), "{text}");
        }
    }
}
