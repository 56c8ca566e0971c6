//! Names of SMBIOS's numbers for the chassis and the wake-up (DSP0134).

use crate::smbios::types::SystemWakeUpType;

/// Event that started the machine (table 7.2.2).
pub(super) fn wake_up(code: &SystemWakeUpType) -> Option<&'static str> {
    match code {
        SystemWakeUpType::ApmTimer => Some("timer"),
        SystemWakeUpType::ModernRing => Some("modem"),
        SystemWakeUpType::LanRemote => Some("network"),
        SystemWakeUpType::PowerSwitch => Some("power switch"),
        SystemWakeUpType::PciPme => Some("pci"),
        SystemWakeUpType::ACPowerRestored => Some("power restored"),
        _ => None,
    }
}

/// The name of a chassis type (DSP0134, section 7.4.1).
pub(crate) fn chassis_kind(code: u8) -> Option<&'static str> {
    const KINDS: &[&str] = &[
        "Other",
        "Unknown",
        "Desktop",
        "Low Profile Desktop",
        "Pizza Box",
        "Mini Tower",
        "Tower",
        "Portable",
        "Laptop",
        "Notebook",
        "Hand Held",
        "Docking Station",
        "All in One",
        "Sub Notebook",
        "Space-saving",
        "Lunch Box",
        "Main Server Chassis",
        "Expansion Chassis",
        "SubChassis",
        "Bus Expansion Chassis",
        "Peripheral Chassis",
        "RAID Chassis",
        "Rack Mount Chassis",
        "Sealed-case PC",
        "Multi-system Chassis",
        "Compact PCI",
        "Advanced TCA",
        "Blade",
        "Blade Enclosure",
        "Tablet",
        "Convertible",
        "Detachable",
        "IoT Gateway",
        "Embedded PC",
        "Mini PC",
        "Stick PC",
    ];
    // Type 2 means unknown, so it has no name.
    let kind = KINDS.get(usize::from(code).checked_sub(1)?).copied();
    kind.filter(|kind| *kind != "Unknown")
}
