//! Power supplies: SMBIOS type 39 (DSP0134 3.7, section 7.40).

use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::types::{
    MaxPowerCapacity, PowerSupplyCharacteristics as Flags, SMBiosSystemPowerSupply,
};
use super::{Smbios, text};

/// A power supply as the firmware lists it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PowerSupply {
    /// Its place, e.g. `PSU 1` (offset 05h).
    pub location: Option<String>,
    /// Name of the model (06h).
    pub name: Option<String>,
    /// Maker (07h).
    pub manufacturer: Option<String>,
    /// Serial number (08h).
    pub serial: Option<String>,
    /// Asset tag (09h).
    pub asset_tag: Option<String>,
    /// Part number of the model (0Ah).
    pub part_number: Option<String>,
    /// Revision (0Bh).
    pub revision: Option<String>,
    /// The power group that it feeds; those of one group are redundant (04h); `None` without one.
    pub group: Option<u8>,
    /// Most power that it can give, in W (0Ch).
    pub max_power_watts: Option<u16>,
    /// `linear`, `switching`, `battery`, `ups`, `converter` or `regulator` (0Eh, bits 13:10).
    pub kind: Option<String>,
    /// Its adaptation to the voltage of the feed: `manual`, `automatic` or `wide range` (bits 6:3).
    pub input_range: Option<String>,
    /// `ok`, `non-critical` or `critical`, at the time when the machine was started (bits 9:7).
    pub status: Option<String>,
    /// True if it was plugged into the wall then (bit 2).
    pub is_plugged: Option<bool>,
    /// True if it is there (bit 1).
    pub is_present: Option<bool>,
    /// True if it may be changed while the machine runs (bit 0).
    pub is_hot_pluggable: Option<bool>,
}

/// The power supplies, in table order.
pub fn power_supplies(table: &Smbios) -> Vec<PowerSupply> {
    table.all().map(|entry| power_supply(&entry)).collect()
}

fn power_supply(entry: &SMBiosSystemPowerSupply) -> PowerSupply {
    let flags = entry.power_supply_characteristics();
    let flags = flags.as_ref();
    let name = |flags: Option<&Flags>, table, shift: u32, mask: u16| {
        data::named(table, (flags?.raw >> shift) & mask)
    };
    // Of an empty bay some bits say nothing.
    let of_present = flags.filter(|flags| flags.is_present());
    PowerSupply {
        location: text(&entry.location()),
        name: text(&entry.device_name()),
        manufacturer: text(&entry.manufacturer()),
        serial: text(&entry.serial_number()),
        asset_tag: text(&entry.asset_tag_number()),
        part_number: text(&entry.model_part_number()),
        revision: text(&entry.revision_level()),
        group: entry.power_unit_group().filter(|group| *group != 0),
        max_power_watts: match entry.max_power_capacity() {
            Some(MaxPowerCapacity::Watts(watts)) => {
                Some(watts).filter(|watts| !matches!(watts, 0 | 0xffff))
            }
            Some(MaxPowerCapacity::Unknown) | None => None,
        },
        kind: name(flags, "power.kind", 10, 0xf),
        input_range: name(flags, "power.range", 3, 0xf),
        status: name(of_present, "power.status", 7, 0x7),
        is_plugged: of_present.map(|flags| !flags.unplugged_from_wall()),
        is_present: flags.map(Flags::is_present),
        is_hot_pluggable: flags.map(Flags::hot_replaceable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};
    use crate::testing::has;
    use serde_json::json;

    fn of(watts: u16, flags: u16) -> PowerSupply {
        let mut fields = vec![1, 1, 2, 3, 4, 0, 5, 0];
        fields.extend(watts.to_le_bytes());
        fields.extend(flags.to_le_bytes());
        let strings: [&[u8]; 5] = [b"PSU 1", b"PWR SPLY,750WP", b"Acme", b"SERIAL-01", b"0PJMDN"];
        power_supplies(&smbios(&[structure(39, &fields, &strings)])).remove(0)
    }

    #[test]
    fn a_power_supply_has_its_model_its_power_and_its_state() {
        let supply = of(750, 4 << 10 | 3 << 7 | 0b011);
        has(&supply, &json!({"location": "PSU 1", "max_power_watts": 750, "serial": "SERIAL-01"}));
        has(&supply, &json!({"kind": "switching", "status": "ok", "input_range": null}));
        has(&supply, &json!({"is_plugged": true, "is_hot_pluggable": true}));
        let ranges = [3, 4, 5, 6].map(|code| of(750, code << 3 | 2).input_range);
        assert_eq!(
            ranges.each_ref().map(Option::as_deref),
            [Some("manual"), Some("automatic"), Some("wide range"), None]
        );
        assert_eq!(of(750, 5 << 7 | 0b110).status.as_deref(), Some("critical"));
        assert_eq!(of(750, 5 << 7 | 0b110).is_plugged, Some(false));
    }

    #[test]
    fn an_unknown_power_and_the_state_of_an_empty_bay_are_absent() {
        let empty = of(0x8000, 2 << 10 | 5 << 7);
        assert_eq!((empty.max_power_watts, empty.kind, empty.status), (None, None, None));
        assert_eq!((empty.is_present, empty.is_plugged), (Some(false), None));
    }

    #[test]
    fn every_length_of_the_structure_is_read_without_a_panic() {
        for length in 0..20 {
            let table = smbios(&[structure(39, &vec![1; length], &[b"x"])]);
            assert_eq!(power_supplies(&table).len(), 1);
        }
    }
}
