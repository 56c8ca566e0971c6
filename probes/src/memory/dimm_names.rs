//! Names for smbios-lib's kinds of memory modules and their arrays (DSP0134, sections 7.17 to 7.19).

use crate::smbios::types::{
    MemoryArrayErrorCorrection, MemoryDeviceTechnology, MemoryDeviceType, MemoryErrorType,
    MemoryFormFactor,
};

pub(super) fn error_correction(code: &MemoryArrayErrorCorrection) -> Option<&'static str> {
    match code {
        MemoryArrayErrorCorrection::NoCorrection => Some("None"),
        MemoryArrayErrorCorrection::Parity => Some("Parity"),
        MemoryArrayErrorCorrection::SingleBitEcc => Some("Single-bit ECC"),
        MemoryArrayErrorCorrection::MultiBitEcc => Some("Multi-bit ECC"),
        MemoryArrayErrorCorrection::Crc => Some("CRC"),
        _ => None,
    }
}

/// The name of an error; `None` also where the firmware says that there was none.
pub(super) fn error(code: &MemoryErrorType) -> Option<&'static str> {
    match code {
        MemoryErrorType::BadRead => Some("Bad read"),
        MemoryErrorType::ParityError => Some("Parity error"),
        MemoryErrorType::SingleBitError => Some("Single-bit error"),
        MemoryErrorType::DoubleBitError => Some("Double-bit error"),
        MemoryErrorType::MultiBitError => Some("Multi-bit error"),
        MemoryErrorType::NibbleError => Some("Nibble error"),
        MemoryErrorType::ChecksumError => Some("Checksum error"),
        MemoryErrorType::CrcError => Some("CRC error"),
        MemoryErrorType::CorrectedSingleBitError => Some("Corrected single-bit error"),
        MemoryErrorType::CorrectedError => Some("Corrected error"),
        MemoryErrorType::UncorrectableError => Some("Uncorrectable error"),
        _ => None,
    }
}

pub(super) fn form_factor(code: &MemoryFormFactor) -> Option<String> {
    let name = match code {
        MemoryFormFactor::Other | MemoryFormFactor::Unknown | MemoryFormFactor::None => {
            return None;
        }
        MemoryFormFactor::ProprietaryCard => "Proprietary Card",
        MemoryFormFactor::RowOfChips => "Row Of Chips",
        MemoryFormFactor::Fbdimm => "FB-DIMM",
        MemoryFormFactor::Chip => "Chip",
        MemoryFormFactor::Die => "Die",
        // The others are abbreviations.
        other => return Some(format!("{other:?}").to_uppercase()),
    };
    Some(name.to_owned())
}

pub(super) fn kind(code: &MemoryDeviceType) -> Option<String> {
    let name = match code {
        MemoryDeviceType::Other | MemoryDeviceType::Unknown | MemoryDeviceType::None => {
            return None;
        }
        MemoryDeviceType::Ddr2Fbdimm => "DDR2 FB-DIMM",
        MemoryDeviceType::Flash => "Flash",
        MemoryDeviceType::LogicalNonVolatileDevice => "Logical non-volatile device",
        MemoryDeviceType::ThreeDram => "3DRAM",
        // The others are abbreviations.
        other => return Some(format!("{other:?}").to_uppercase()),
    };
    Some(name.to_owned())
}

/// The technology of a module, unless it is plain DRAM.
pub(super) fn technology(code: &MemoryDeviceTechnology) -> Option<&'static str> {
    match code {
        MemoryDeviceTechnology::NvdimmN => Some("NVDIMM-N"),
        MemoryDeviceTechnology::NvdimmF => Some("NVDIMM-F"),
        MemoryDeviceTechnology::NvdimmP => Some("NVDIMM-P"),
        MemoryDeviceTechnology::IntelOptaneDcPersistentMemory => {
            Some("Intel Optane persistent memory")
        }
        MemoryDeviceTechnology::Mrdimm => Some("MRDIMM"),
        _ => None,
    }
}
