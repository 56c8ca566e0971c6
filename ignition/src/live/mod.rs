//! Makes the configuration that adds the agent to a live image: Ignition JSON, Butane YAML, kernel arguments, and
//! the configuration of iPXE, PXELINUX and GRUB.
//!
//! All outputs come from one [`Settings`] and one template, `templates/live.yaml`. The template is parsed first and the
//! settings are inserted into the parsed tree, so quotes, newlines or braces in a setting stay text in every output. The
//! result is checked with [`crate::check()`].
//!
//! It covers section 1.4.2 of the VIM document: the enabled unit (exactly `systemd/run-coreos-installer.service`), the
//! VIM in `/etc/hosts`, and the agent fetched as gzip with the SHA-512 of the uncompressed file. The agent does not need
//! the further programs of that section (ethtool, dmidecode); [`Settings::files`] can add them. Nothing needs a spec
//! newer than 3.0.0, but for SHA-256 digests (3.1.0).
//!
//! Sources: Butane `docs/config-fcos-v1_4.md`; Ignition `docs/configuration-v3_3.md`; `ignition.*`
//! kernel arguments in Ignition's `docs/operator-notes.md`; coreos-installer `docs/customizing-install.md`.

mod boot;
mod checks;
mod merge;
mod network;
mod settings;
mod ssh_key;
mod template;
mod translate;
mod yaml;

use std::fmt;
use std::io::Write as _;

pub use boot::{grub_entry, ipxe_script, kernel_arguments, pxelinux_config};
pub use network::{Keyfile, keyfiles, packet_network};
pub use settings::{
    AgentBinary, Boot, ExtraFile, FileSource, Secret, Settings, Spec, Target, Unit,
};

use crate::refusal::{Refusal, Warning};

/// The unit that starts the agent, exactly as in the repository.
pub const UNIT: &str = include_str!("../../../systemd/run-coreos-installer.service");

/// The unit of the VIM document, section 1.4.2.1, to the letter, for [`Settings::hold_logins`].
pub const HOLDING_UNIT: &str = include_str!("../../templates/hold-logins.service");

/// Reason that no live configuration was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveError {
    /// A setting is invalid.
    Setting {
        /// Name of the setting, as in [`Settings`].
        setting: &'static str,
        /// The content found, quoted; never a secret.
        found: String,
        /// Description of the expected content.
        expected: String,
    },
    /// Each setting is valid, but Ignition would refuse the result, e.g. two files with one path.
    Refused(Refusal),
    /// Ignition would accept the result, but not do as its author intended.
    Warned(Warning),
    /// Ignition would refuse the config that the live image installs.
    Target(Refusal),
    /// Ignition would refuse [`Settings::merge`], or what it makes with the live image's config.
    Merge(Refusal),
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { setting, found, expected } => {
                write!(f, "{setting} is {found}, expected {expected}")
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Warned(warning) => write!(f, "the live image's Ignition config: {warning}"),
            Self::Target(refusal) => write!(f, "the config to install: {refusal}"),
            Self::Merge(refusal) => write!(f, "the merged config: {refusal}"),
        }
    }
}

impl std::error::Error for LiveError {}

/// Makes the live image's Ignition config as indented JSON.
///
/// # Errors
/// [`LiveError`] if a setting is invalid, or Ignition would refuse the result.
pub fn ignition_json(settings: &Settings) -> Result<String, LiveError> {
    let butane = template::expand(settings)?;
    let json = format!("{:#}\n", translate::to_ignition(&butane, settings.spec));
    let checked = crate::check(json.as_bytes()).map_err(LiveError::Refused)?;
    // Only what users add can differ: the paths of their files.
    if let Some(warning) = checked.warnings.into_iter().next() {
        return Err(LiveError::Warned(warning));
    }
    settings.merge.as_ref().map_or(Ok(json.clone()), |parent| merge::merged(parent.reveal(), &json))
}

/// Makes the same config as Butane YAML with comments, variant fcos, for people.
///
/// # Errors
/// As [`ignition_json`].
pub fn butane_yaml(settings: &Settings) -> Result<String, LiveError> {
    let expected = "nothing for Butane YAML, which does not have every key of Ignition's JSON";
    checks::require(settings.merge.is_none(), "merge", "a config", expected)?;
    ignition_json(settings)?;
    let head = "# Live image of run-coreos-installer; made by run-coreos-installer live-config.\n";
    Ok(format!("{head}{}", yaml::document(&template::expand(settings)?)))
}

/// Compresses `bytes` with gzip, as the VIM serves the agent. The same input always gives the same output.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let encoder = flate2::GzBuilder::new().mtime(0);
    let mut encoder = encoder.write(Vec::new(), flate2::Compression::best());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests;
