//! Names of modules and connectors by number (SFF-8024, tables 4-1 and 4-3).

/// The memory layout of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// SFF-8472.
    Sfp,
    /// SFF-8636, and SFF-8436 before it.
    Qsfp,
    /// CMIS.
    Cmis,
}

/// The layout for an identifier; `None` if it is unknown, as for an empty cage that reads as zeros or
/// ones.
pub(super) fn layout(identifier: u8) -> Option<Layout> {
    match identifier {
        0x02 | 0x03 | 0x0b => Some(Layout::Sfp),
        0x0c | 0x0d | 0x11 => Some(Layout::Qsfp),
        0x18..=0x1b | 0x1e..=0x25 => Some(Layout::Cmis),
        _ => None,
    }
}

/// The kind of module.
pub(super) fn kind(identifier: u8) -> Option<&'static str> {
    Some(match identifier {
        0x02 => "soldered",
        0x03 | 0x20 => "sfp",
        0x0b => "dwdm-sfp",
        0x0c => "qsfp",
        0x0d | 0x1e => "qsfp+",
        0x11 => "qsfp28",
        0x18 => "qsfp-dd",
        0x19 => "osfp",
        0x1a | 0x1f => "sfp-dd",
        0x1b => "dsfp",
        _ => return None,
    })
}

/// The cable is permanently attached to its plug.
pub(super) const NO_SEPARABLE_CONNECTOR: u8 = 0x23;

/// The connector.
pub(super) fn connector(number: u8) -> Option<String> {
    let name = match number {
        0x01 => "sc",
        0x06 => "fiber_jack",
        0x07 => "lc",
        0x08 => "mt_rj",
        0x09 => "mu",
        0x0b => "optical_pigtail",
        0x0c => "mpo_1x12",
        0x0d => "mpo_2x16",
        0x20 => "hssdc_ii",
        0x21 => "copper_pigtail",
        0x22 => "rj45",
        NO_SEPARABLE_CONNECTOR => "no_separable_connector",
        0x24 => "mxc_2x16",
        0x25 => "cs",
        0x26 => "sn",
        0x27 => "mpo_2x12",
        0x28 => "mpo_1x16",
        _ => return None,
    };
    Some(name.to_owned())
}
