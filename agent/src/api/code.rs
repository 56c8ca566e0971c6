//! Stable codes of what went wrong, as results carry them.

use std::fmt;

use super::CheckName;

/// Why a node is not installed; programs may rely on the spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The agent's own configuration does not do.
    Config,
    /// No report could be posted.
    NoReport,
    /// The instruction is malformed.
    InstructionInvalid,
    /// The instruction's action is not one of the API.
    ActionUnknown,
    /// The instruction's action is one of the API, but this agent cannot carry it out.
    ActionUnsupported,
    /// The Ignition config could not be fetched.
    IgnitionFetch,
    /// The Ignition config has another digest than the instruction says.
    IgnitionHash,
    /// The Ignition config's version is not one that the installed system knows.
    IgnitionVersion,
    /// The Ignition config breaks the specification.
    IgnitionInvalid,
    /// No eligible disk, or none that matches.
    DiskNone,
    /// Several disks match and the instruction does not say how to choose.
    DiskAmbiguous,
    /// The disk that was asked for may not be written.
    DiskNotEligible,
    /// The disk is not the one that was expected.
    DiskChanged,
    /// The disk is in use.
    DiskBusy,
    /// The disk is smaller than the image.
    DiskTooSmall,
    /// The image is made for another sector size.
    SectorSize,
    /// The image could not be fetched.
    ImageFetch,
    /// The image has another digest than the instruction says.
    ImageHash,
    /// Findings of a severity that stops an install.
    Findings,
    /// Less memory is available than the install needs.
    MemoryLow,
    /// coreos-installer is not there.
    InstallerMissing,
    /// coreos-installer is older than 0.10.1.
    InstallerTooOld,
    /// The image's signature is missing or bad.
    Signature,
    /// A server answered the installer with this HTTP status.
    Http(u16),
    /// The live medium cannot be read any more.
    MediumLost,
    /// The image does not fit on the disk.
    NoSpace,
    /// The disk failed to write or read.
    TargetIo,
    /// Kernel arguments, platform or console could not be set.
    Kargs,
    /// The network profiles to copy are not there.
    Network,
    /// coreos-installer failed for another reason.
    InstallerFailed,
    /// The agent was told to end.
    Interrupted,
    /// A check of the written disk failed.
    Proof(CheckName),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "CONFIG",
            Self::NoReport => "NO_REPORT",
            Self::InstructionInvalid => "INSTRUCTION_INVALID",
            Self::ActionUnknown => "ACTION_UNKNOWN",
            Self::ActionUnsupported => "ACTION_UNSUPPORTED",
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
            Self::SectorSize => "SECTOR_SIZE",
            Self::ImageFetch => "IMAGE_FETCH",
            Self::ImageHash => "IMAGE_HASH",
            Self::Findings => "FINDINGS",
            Self::MemoryLow => "MEMORY_LOW",
            Self::InstallerMissing => "INSTALLER_MISSING",
            Self::InstallerTooOld => "INSTALLER_TOO_OLD",
            Self::Signature => "SIGNATURE",
            Self::Http(status) => return write!(f, "HTTP_{status}"),
            Self::MediumLost => "MEDIUM_LOST",
            Self::NoSpace => "NO_SPACE",
            Self::TargetIo => "TARGET_IO",
            Self::Kargs => "KARGS",
            Self::Network => "NETWORK",
            Self::InstallerFailed => "INSTALLER_FAILED",
            Self::Interrupted => "INTERRUPTED",
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
    fn codes_that_carry_something_spell_it_out() {
        assert_eq!(Code::Http(404).to_string(), "HTTP_404");
        assert_eq!(Code::Proof(CheckName::IgnitionDigest).to_string(), "PROOF_IGNITION_DIGEST");
    }
}
