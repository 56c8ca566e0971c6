//! Parts of a machine: the one value by which findings, faults, comparisons, diagnostics and people name them.
//!
//! Source: the forms in which the report, `block_except` of an instruction and `judged.txt` name parts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds: the name in expectations and comparisons, the name for people, the component of findings about such parts.
macro_rules! part_kinds {
    ($($kind:ident $name:literal $title:literal $component:literal;)*) => {
        /// A kind of parts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PartKind { $(#[doc = $title] $kind,)* }

        impl PartKind {
            /// The kind with this name in expectations and comparisons.
            pub fn of_name(name: &str) -> Option<PartKind> {
                match name { $($name => Some(PartKind::$kind),)* _ => None }
            }

            fn row(self) -> [&'static str; 3] {
                match self { $(PartKind::$kind => [$name, $title, $component],)* }
            }
        }
    };
}

part_kinds! {
    Product "product" "machine" "identity";
    Chassis "chassis" "chassis" "identity";
    Baseboard "baseboard" "baseboard" "identity";
    Identifier "identifier" "identifier" "identity";
    Bios "bios" "BIOS" "firmware";
    Firmware "firmware" "firmware" "firmware";
    FirmwareComponent "firmware_component" "firmware component" "firmware";
    Tpm "tpm" "TPM" "firmware";
    Bmc "bmc" "BMC" "bmc";
    Sensor "sensor" "sensor" "bmc";
    Fru "fru" "FRU" "bmc";
    Cpu "cpu" "CPUs" "cpu";
    Socket "socket" "socket" "cpu";
    Package "package" "package" "cpu";
    LogicalCpu "logical_cpu" "logical CPU" "cpu";
    Memory "memory" "memory" "memory";
    Dimm "dimm" "DIMM" "memory";
    Nvdimm "nvdimm" "NVDIMM" "memory";
    Disk "disk" "disk" "disk";
    RaidController "raid_controller" "RAID controller" "disk";
    RaidDrive "raid_drive" "RAID drive" "disk";
    RaidVolume "raid_volume" "RAID volume" "disk";
    FcHost "fc_host" "FC port" "disk";
    Interface "interface" "port" "nic";
    Infiniband "infiniband" "InfiniBand" "nic";
    Gpu "gpu" "GPU" "pci";
    Pci "pci" "PCI device" "pci";
    PowerSupply "power_supply" "power supply" "power";
    Other "other" "part" "os";
}

impl PartKind {
    /// The name in expectations and comparisons, e.g. `dimm`.
    pub fn name(self) -> &'static str {
        self.row()[0]
    }

    /// The name for people, e.g. `DIMM`.
    pub fn title(self) -> &'static str {
        self.row()[1]
    }

    /// The component of findings about such parts, e.g. `memory`.
    pub fn component(self) -> &'static str {
        self.row()[2]
    }
}

/// A detail in the text of a part, in addition to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// The serial number.
    Serial(String),
    /// The bay of the chassis.
    Bay(String),
    /// The address of its PCI device.
    Address(String),
    /// The address of its RAID controller.
    Controller(String),
    /// Anything else, such as the bank of a slot.
    Other(String),
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Serial(serial) => write!(f, "serial {serial}"),
            Detail::Bay(bay) => write!(f, "bay {bay}"),
            Detail::Controller(address) => write!(f, "RAID controller {address}"),
            Detail::Address(text) | Detail::Other(text) => f.write_str(text),
        }
    }
}

/// A part of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct PartId {
    /// Its kind.
    pub kind: PartKind,
    /// Key that distinguishes it from all parts of its kind, e.g. `sda`, `0000:3b:00.0`.
    pub key: String,
    /// Name that people use, e.g. `sda`, `slot 4`.
    pub name: String,
    /// Details of its place and identity.
    pub details: Vec<Detail>,
}

impl PartId {
    /// A part of a kind; people call it by its key.
    pub fn new(kind: PartKind, key: impl Into<String>) -> PartId {
        let key = key.into();
        PartId { kind, name: key.clone(), key, details: Vec::new() }
    }

    /// The part that other programs or the firmware call so. This is the only place that takes such a name apart: details
    /// are in brackets at its end.
    pub fn called(kind: PartKind, text: impl Into<String>) -> PartId {
        let part = PartId::new(kind, text);
        let inner = part.key.strip_suffix(')').and_then(|text| text.split_once(" ("));
        match inner.map(|(name, details)| (name.to_owned(), details.to_owned())) {
            Some((name, details)) => part.named(name).with([Detail::Other(details)]),
            None => part,
        }
    }

    /// The part with another name for people.
    pub fn named(self, name: impl Into<String>) -> PartId {
        PartId { name: name.into(), ..self }
    }

    /// The part with these details.
    pub fn with(self, details: impl IntoIterator<Item = Detail>) -> PartId {
        PartId { details: details.into_iter().collect(), ..self }
    }

    /// True if both are the same part, even if different details of its place are known.
    pub fn is(&self, other: &PartId) -> bool {
        (self.kind, &self.key) == (other.kind, &other.key)
    }

    /// The bay; `None` if it is in none.
    pub fn bay(&self) -> Option<&Detail> {
        self.details.iter().find(|detail| matches!(detail, Detail::Bay(_)))
    }

    /// The address of the PCI device that it is, or that controls it.
    pub fn pci_address(&self) -> Option<&str> {
        let address = self.details.iter().find_map(|detail| match detail {
            Detail::Address(address) => Some(address.as_str()),
            _ => None,
        });
        let is_device = matches!(self.kind, PartKind::Pci | PartKind::RaidController);
        address.or(is_device.then_some(&self.key))
    }

    /// True if the text has the detail behind the brackets instead of in them.
    fn is_behind(&self, detail: &Detail) -> bool {
        let is_controller = matches!(detail, Detail::Controller(_));
        self.kind == PartKind::Nvdimm || (self.kind == PartKind::RaidVolume && is_controller)
    }
}

/// The text in reports and for people, e.g. `sda (serial Z1, bay 3)`.
impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (behind, within): (Vec<&Detail>, Vec<&Detail>) =
            self.details.iter().partition(|detail| self.is_behind(detail));
        let within: Vec<String> = within.into_iter().map(Detail::to_string).collect();
        f.write_str(&self.name)?;
        if !within.is_empty() {
            write!(f, " ({})", within.join(", "))?;
        }
        behind.into_iter().try_for_each(|detail| write!(f, ", {detail}"))
    }
}

impl From<PartId> for String {
    fn from(part: PartId) -> String {
        part.to_string()
    }
}

impl From<String> for PartId {
    fn from(text: String) -> PartId {
        PartId::called(PartKind::Other, text)
    }
}

impl From<&str> for PartId {
    fn from(text: &str) -> PartId {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_part_has_its_details_in_brackets_or_behind_a_comma() {
        let serial = || Detail::Serial("Z1".to_owned());
        let controller = || Detail::Controller("0000:18:00.0".to_owned());
        let disk = PartId::new(PartKind::Disk, "sda");
        let volume = PartId::new(PartKind::RaidVolume, "volume 0");
        for (part, expected) in [
            (disk.clone(), "sda"),
            (disk.clone().with([serial(), Detail::Bay("3".to_owned())]), "sda (serial Z1, bay 3)"),
            (PartId::new(PartKind::Nvdimm, "nmem0").with([serial()]), "nmem0, serial Z1"),
            (
                volume.with([Detail::Other("sda".to_owned()), controller()]),
                "volume 0 (sda), RAID controller 0000:18:00.0",
            ),
            (disk.with([serial(), controller()]), "sda (serial Z1, RAID controller 0000:18:00.0)"),
        ] {
            assert_eq!(part.to_string(), expected);
        }
    }

    #[test]
    fn any_text_is_a_part_of_the_same_text_and_its_name_ends_before_the_brackets() {
        for (text, name) in
            [("A1 (P1)", "A1"), ("a (b), c (d)", "a"), ("Fan (1) x", "Fan (1) x"), ("", "")]
        {
            let part = PartId::from(text);
            assert_eq!((part.to_string().as_str(), part.name.as_str()), (text, name));
        }
    }
}
