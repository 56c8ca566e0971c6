//! Names of SMBIOS's numbers for memory modules and their arrays (DSP0134, sections 7.17 to 7.19).

/// The name of `code`; the first name belongs to code 1, and an empty name means unknown.
pub(super) fn name(names: &[&str], code: u8) -> Option<String> {
    let name = names.get(usize::from(code).checked_sub(1)?)?;
    (!name.is_empty()).then(|| (*name).to_owned())
}

// `Other` and `Unknown` are no facts and are left empty.
pub(super) const ERROR_CORRECTIONS: &[&str] =
    &["", "", "None", "Parity", "Single-bit ECC", "Multi-bit ECC", "CRC"];

/// Types of errors (DSP0134, section 7.19.1); the third means that there was no error.
pub(super) const ERRORS: &[&str] = &[
    "",
    "",
    "",
    "Bad read",
    "Parity error",
    "Single-bit error",
    "Double-bit error",
    "Multi-bit error",
    "Nibble error",
    "Checksum error",
    "CRC error",
    "Corrected single-bit error",
    "Corrected error",
    "Uncorrectable error",
];

pub(super) const FORM_FACTORS: &[&str] = &[
    "",
    "",
    "SIMM",
    "SIP",
    "Chip",
    "DIP",
    "ZIP",
    "Proprietary Card",
    "DIMM",
    "TSOP",
    "Row Of Chips",
    "RIMM",
    "SODIMM",
    "SRIMM",
    "FB-DIMM",
    "Die",
    "CAMM",
];

pub(super) const KINDS: &[&str] = &[
    "",
    "",
    "DRAM",
    "EDRAM",
    "VRAM",
    "SRAM",
    "RAM",
    "ROM",
    "Flash",
    "EEPROM",
    "FEPROM",
    "EPROM",
    "CDRAM",
    "3DRAM",
    "SDRAM",
    "SGRAM",
    "RDRAM",
    "DDR",
    "DDR2",
    "DDR2 FB-DIMM",
    "",
    "",
    "",
    "DDR3",
    "FBD2",
    "DDR4",
    "LPDDR",
    "LPDDR2",
    "LPDDR3",
    "LPDDR4",
    "Logical non-volatile device",
    "HBM",
    "HBM2",
    "DDR5",
    "LPDDR5",
    "HBM3",
];

/// Technologies of modules; the third is plain DRAM.
pub(super) const TECHNOLOGIES: &[&str] =
    &["", "", "", "NVDIMM-N", "NVDIMM-F", "NVDIMM-P", "Intel Optane persistent memory"];
