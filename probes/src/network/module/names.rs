//! Layouts of modules by number (SFF-8024, table 4-1); `data/codes.txt` has the names of modules and connectors.

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

/// The cable is permanently attached to its plug.
pub(super) const NO_SEPARABLE_CONNECTOR: u8 = 0x23;
