//! Stable error codes, as in the results that are posted.

use std::fmt;

use super::outcome::CheckName;

/// Why a node was not installed. Programs may rely on the spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The API has the action, but this agent does not support it.
    ActionUnsupported,
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
    /// Another disk has a file system labelled `boot`, with which the installed system would not boot.
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
    /// A signal interrupted the agent.
    Interrupted,
    /// A bug ended the agent, or it ran out of memory.
    AgentBug,
    /// A check of the written disk failed.
    Proof(CheckName),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "CONFIG",
            Self::NoReport => "NO_REPORT",
            Self::NoInstruction => "NO_INSTRUCTION",
            Self::InstructionInvalid => "INSTRUCTION_INVALID",
            Self::ActionUnknown => "ACTION_UNKNOWN",
            Self::ActionUnsupported => "ACTION_UNSUPPORTED",
            Self::KeyUnsupported => "KEY_UNSUPPORTED",
            Self::NodeWrong => "NODE_WRONG",
            Self::IgnitionFetch => "IGNITION_FETCH",
            Self::IgnitionHash => "IGNITION_HASH",
            Self::IgnitionVersion => "IGNITION_VERSION",
            Self::IgnitionInvalid => "IGNITION_INVALID",
            Self::DiskNone => "DISK_NONE",
            Self::DiskAmbiguous => "DISK_AMBIGUOUS",
            Self::DiskNotEligible => "DISK_NOT_ELIGIBLE",
            Self::DiskChanged => "DISK_CHANGED",
            Self::DiskBusy => "DISK_BUSY",
            Self::DiskTooSmall => "DISK_TOO_SMALL",
            Self::ExistingData => "EXISTING_DATA",
            Self::Protected => "PROTECTED",
            Self::SavedPartition => "SAVED_PARTITION",
            Self::BootLabel => "BOOT_LABEL",
            Self::SectorSize => "SECTOR_SIZE",
            Self::ImageFetch => "IMAGE_FETCH",
            Self::ImageHash => "IMAGE_HASH",
            Self::ImageStalled => "IMAGE_STALLED",
            Self::ImageTruncated => "IMAGE_TRUNCATED",
            Self::ImageChanged => "IMAGE_CHANGED",
            Self::ImageInsecure => "IMAGE_INSECURE",
            Self::Findings => "FINDINGS",
            Self::MemoryLow => "MEMORY_LOW",
            Self::InstallerMissing => "INSTALLER_MISSING",
            Self::InstallerTooOld => "INSTALLER_TOO_OLD",
            Self::Signature => "SIGNATURE",
            Self::Http(status) => return write!(f, "HTTP_{status}"),
            Self::MediumLost => "MEDIUM_LOST",
            Self::NoSpace => "NO_SPACE",
            Self::TargetIo => "TARGET_IO",
            Self::TargetHung => "TARGET_HUNG",
            Self::Kargs => "KARGS",
            Self::Network => "NETWORK",
            Self::InstallerFailed => "INSTALLER_FAILED",
            Self::Interrupted => "INTERRUPTED",
            Self::AgentBug => "AGENT_BUG",
            Self::Proof(check) => {
                return write!(f, "PROOF_{}", check.as_str().to_ascii_uppercase());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_include_their_parameters() {
        assert_eq!(Code::Http(404).to_string(), "HTTP_404");
        assert_eq!(Code::Proof(CheckName::IgnitionDigest).to_string(), "PROOF_IGNITION_DIGEST");
    }
}
