//! The confirmation of an install by the installed system: what its Ignition config gets for that.

use formats::digest::sha256;
use ignition::confirm::{Confirmation, wrap};
use probes::block::Disk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Code, Failure, Term, say};
use crate::random::random_bytes;
use crate::secret::Secret;

/// The request by which the installed system confirms each of its first two boots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confirm {
    /// Options of curl(1) by their long names, with the placeholders of [`Confirmation`]; `@TOKEN@` stands for a token that is new
    /// for each write.
    pub options: Vec<(&'static str, String)>,
    /// PEM with certificates that are trusted in addition to those of the installed system.
    pub ca: Option<String>,
    /// Reasons why the request may fail, for the result.
    pub warnings: Vec<String>,
}

/// Digests by which the confirmation of an install is known. Each is `sha256-` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmDigests {
    /// Digest of the token that the installed system sends as `Authorization: Bearer TOKEN`.
    pub token_digest: String,
    /// Digest of the Ignition config as it was before the confirmation was added.
    pub ignition_digest: String,
}

impl Confirm {
    /// Adds the confirmation to a config of this spec version, which is installed on this disk.
    ///
    /// # Errors
    /// `IGNITION_INVALID` if the config is too large for that, `CONFIG` without random numbers.
    pub(super) fn add(
        &self,
        config: &[u8],
        version: &str,
        disk: &Disk,
    ) -> Result<(Vec<u8>, ConfirmDigests), Failure> {
        let bytes: [u8; 16] = random_bytes().map_err(|error| {
            Failure::new(Code::Config, format!("reading random bytes for a token: {error}"))
        })?;
        let token = Secret::new(format!("{:032x}", u128::from_be_bytes(bytes)));
        let filled = |(name, value): &(&'static str, String)| {
            (*name, value.replace("@TOKEN@", token.expose()))
        };
        let options: Vec<(&str, String)> = self.options.iter().map(filled).collect();
        let options: Vec<(&str, &str)> =
            options.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (serial, wwn) = (disk.serial.as_deref(), disk.wwn.as_deref());
        let added = Confirmation { options: &options, ca: self.ca.as_deref(), serial, wwn };
        let wrapped = wrap(config, version, &added).map_err(|n_bytes| {
            let most = ignition::check::MAX_CONFIG_BYTES;
            let message = say![
                Term::Ignition,
                format!(" and its confirmation have {n_bytes} bytes, expected at most {most}")
            ];
            Failure::new(Code::IgnitionInvalid, message)
                .advise("let the config fetch its large files, or do without confirm")
        })?;
        let token_digest = sha256(token.expose().as_bytes());
        Ok((wrapped, ConfirmDigests { token_digest, ignition_digest: sha256(config) }))
    }
}
