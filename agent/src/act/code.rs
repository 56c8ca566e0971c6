//! Stable error codes, as in the results that are posted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::outcome::CheckName;

/// Why a node was not installed. Programs may rely on the spelling, which is that of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The agent's own configuration is wrong.
    Config,
    /// No report could be posted.
    NoReport,
    /// The VIM accepted the report, but sent no instruction in time.
    NoInstruction,
    /// The instruction is malformed.
    InstructionInvalid,
    /// The API has no such action.
    ActionUnknown,
    /// The API has the key, but this agent does not support it.
    KeyUnsupported,
    /// The instruction is for another node.
    NodeWrong,
    /// The Ignition config could not be fetched.
    IgnitionFetch,
    /// The digest of the Ignition config differs from the instruction's.
    IgnitionHash,
    /// The installed system does not support the Ignition config's version.
    IgnitionVersion,
    /// The Ignition config violates the specification.
    IgnitionInvalid,
    /// No disk is eligible, or none matches.
    DiskNone,
    /// Several disks match, and the instruction does not say which one to choose.
    DiskAmbiguous,
    /// The requested disk is not eligible.
    DiskNotEligible,
    /// The disk is not the expected one.
    DiskChanged,
    /// The disk is in use.
    DiskBusy,
    /// The disk is smaller than the image.
    DiskTooSmall,
    /// The disk contains data that the instruction does not allow to overwrite.
    ExistingData,
    /// The disk is protected by the configuration or the instruction.
    Protected,
    /// A partition to keep does not exist, or differs after the write.
    SavedPartition,
    /// Another disk has a file system labelled `boot` or `root`, with which the installed system would not boot.
    BootLabel,
    /// The image is for another sector size.
    SectorSize,
    /// The image could not be fetched.
    ImageFetch,
    /// The digest of the image differs from the instruction's.
    ImageHash,
    /// The image's server stopped sending.
    ImageStalled,
    /// The image ended before its announced size.
    ImageTruncated,
    /// The image is not a raw disk image, or is larger than its partition table says.
    ImageInvalid,
    /// The image is no longer the one that was checked before the disk was touched.
    ImageChanged,
    /// The instruction asks for an image without a signature, but the configuration does not allow it.
    ImageInsecure,
    /// There are findings of a severity that prevents an install.
    Findings,
    /// Less memory is available than the install needs.
    MemoryLow,
    /// coreos-installer was not found.
    InstallerMissing,
    /// coreos-installer is older than 0.10.1.
    InstallerTooOld,
    /// The image's signature is missing or bad.
    Signature,
    /// The server of the image sent this HTTP status.
    #[serde(skip_deserializing)]
    Http(u16),
    /// The live medium can no longer be read.
    MediumLost,
    /// The image does not fit on the disk.
    NoSpace,
    /// The disk failed to write or read.
    TargetIo,
    /// The disk does not respond: coreos-installer hangs in the kernel.
    TargetHung,
    /// Kernel arguments, platform or console could not be set.
    Kargs,
    /// There are no network profiles to copy.
    Network,
    /// coreos-installer failed for another reason.
    InstallerFailed,
    /// The temporary control plane of a cluster could not be started, or did not become ready.
    BootstrapFailed,
    /// The same request was carried out already, and is not to be repeated without being asked.
    AlreadyInstalled,
    /// Three rounds of the same request led to no system.
    RoundsExhausted,
    /// Another agent installs on this node.
    NodeLocked,
    /// A signal interrupted the agent.
    Interrupted,
    /// A bug ended the agent, or it ran out of memory.
    AgentBug,
    /// A check of the written disk failed.
    #[serde(skip_deserializing)]
    Proof(CheckName),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(f, "HTTP_{status}"),
            Self::Proof(check) => write!(f, "PROOF_{}", check.to_string().to_ascii_uppercase()),
            // serde writes the name of the variant.
            _ => self.serialize(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_spelt_as_their_variants_and_include_their_parameters() {
        assert_eq!(Code::NoReport.to_string(), "NO_REPORT");
        assert_eq!(Code::TargetIo.to_string(), "TARGET_IO");
        assert_eq!(Code::Kargs.to_string(), "KARGS");
        assert_eq!(Code::Http(404).to_string(), "HTTP_404");
        assert_eq!(Code::Proof(CheckName::IgnitionDigest).to_string(), "PROOF_IGNITION_DIGEST");
    }
}
