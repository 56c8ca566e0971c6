//! Slots and modules: SMBIOS types 16 and 17 (DSP0134, sections 7.17 and 7.18).

use std::collections::BTreeMap;

use super::{Dimm, Memory};
use crate::smbios::types::{
    Handle, MaximumMemoryCapacity, MemoryArrayUse, MemoryIndicatedSize, MemorySize,
    MemorySizeExtended, MemorySpeed, MemorySpeedExtended, SMBiosMemoryArrayMappedAddress,
    SMBiosMemoryDevice, SMBiosMemoryDeviceMappedAddress, SMBiosMemoryErrorInformation32,
    SMBiosMemoryErrorInformation64, SMBiosPhysicalMemoryArray, SMBiosStruct,
};
use crate::smbios::{Smbios, Structure, text};
use formats::data;
use formats::hex::hex;

/// Far more slots than any machine has; a table with more is not counted.
const LIMIT_SLOTS: usize = 4096;

/// Fills slots, modules and the arrays' facts from the table; of a table that is cut, no sums.
pub(super) fn fill(memory: &mut Memory, table: &Smbios) {
    let arrays: Vec<SMBiosPhysicalMemoryArray> = table.all().filter(is_system).collect();
    memory.error_correction = same(arrays.iter().map(error_correction));
    memory.max_capacity_bytes =
        sum(arrays.iter().map(max_capacity_bytes)).filter(|bytes| *bytes > 0 && table.is_complete);
    memory.mapped_bytes = mapped_bytes(table).filter(|_| table.is_complete);
    let others = Others::of(table);
    let mut slots = table.all().filter(|slot| others.in_system(slot));
    memory.dimms =
        slots.by_ref().take(LIMIT_SLOTS).map(|slot| others.placed(&slot, dimm(&slot))).collect();
    if memory.dimms.is_empty() || !table.is_complete || slots.next().is_some() {
        return;
    }
    let populated: Option<Vec<bool>> = memory.dimms.iter().map(|dimm| dimm.is_populated).collect();
    memory.n_slots = Some(memory.dimms.len());
    memory.n_slots_populated = populated.map(|all| all.into_iter().filter(|is| *is).count());
    let sizes = memory.dimms.iter().map(|dimm| match dimm.is_populated {
        Some(false) => Some(0),
        _ => dimm.size_bytes,
    });
    memory.installed_bytes = sum(sizes);
}

/// True if an array holds system memory, and not flash, video or cache.
fn is_system(array: &SMBiosPhysicalMemoryArray) -> bool {
    array.usage().is_none_or(|usage| *usage == MemoryArrayUse::SystemMemory)
}

/// The structures that slots refer to, found once for all of them.
struct Others<'a> {
    by_handle: BTreeMap<u16, &'a Structure>,
    /// The first and last address that the slot of each handle serves (type 20).
    mapped: BTreeMap<u16, (u64, u64)>,
}

impl Others<'_> {
    fn of(table: &Smbios) -> Others<'_> {
        let mut by_handle = BTreeMap::new();
        for structure in &table.structures {
            by_handle.entry(structure.handle()).or_insert(structure);
        }
        let mut mapped = BTreeMap::new();
        for map in table.all::<SMBiosMemoryDeviceMappedAddress>() {
            let kib = map.starting_address().zip(map.ending_address());
            let bytes = map.extended_starting_address().zip(map.extended_ending_address());
            let (Some(handle), Some((from, to))) = (map.memory_device_handle(), range(kib, bytes))
            else {
                continue;
            };
            let all = mapped.entry(*handle).or_insert((from, to));
            *all = (all.0.min(from), all.1.max(to));
        }
        Others { by_handle, mapped }
    }

    fn get<'a, T: SMBiosStruct<'a>>(&'a self, handle: Option<&Handle>) -> Option<T> {
        self.by_handle.get(handle?)?.as_type()
    }

    /// True if a slot belongs to system memory, which is assumed if its array is missing.
    fn in_system(&self, slot: &SMBiosMemoryDevice) -> bool {
        let array = self.get(slot.physical_memory_array_handle().as_ref());
        array.is_none_or(|array| is_system(&array))
    }

    /// Adds facts of other structures: the mapped range from type 20, an error from type 18 or 33.
    fn placed(&self, slot: &SMBiosMemoryDevice, mut dimm: Dimm) -> Dimm {
        if dimm.is_populated == Some(false) {
            return dimm;
        }
        let mapped = self.mapped.get(&slot.parts().header.handle());
        (dimm.mapped_from, dimm.mapped_to) = mapped.copied().unzip();
        // FFFEh means that the firmware records no errors, FFFFh that there was none.
        let handle = slot.memory_error_information_handle().filter(|handle| **handle < 0xfffe);
        let narrow = self.get::<SMBiosMemoryErrorInformation32>(handle.as_ref());
        let wide = self.get::<SMBiosMemoryErrorInformation64>(handle.as_ref());
        let error = narrow.and_then(|error| error.error_type()).or_else(|| wide?.error_type());
        dimm.firmware_error = error.and_then(|error| data::named("dimm.error", error.raw));
        dimm
    }
}

fn dimm(slot: &SMBiosMemoryDevice) -> Dimm {
    let mut dimm = Dimm {
        locator: text(&slot.device_locator()),
        bank_locator: text(&slot.bank_locator()),
        form_factor: slot.form_factor().and_then(|code| data::named("dimm.form", code.raw)),
        ..Dimm::default()
    };
    (dimm.is_populated, dimm.size_bytes) = size(slot);
    // The other fields of an empty slot are meaningless; some firmware leaves stale values there.
    if dimm.is_populated == Some(false) {
        return dimm;
    }
    let known = |value: Option<u16>| value.filter(|n| *n != 0 && *n != 0xffff);
    let non_volatile_bytes = slot.non_volatile_size().and_then(|size| part_bytes(&size));
    let volatile_bytes = slot.volatile_size().and_then(|size| part_bytes(&size));
    let configured = slot.configured_memory_speed();
    let extended = slot.extended_configured_memory_speed();
    let rank = slot.attributes().map(|attributes| attributes & 0x0f);
    Dimm {
        kind: slot.memory_type().and_then(|code| data::named("dimm.type", code.raw)),
        speed_mt_s: slot.speed().and_then(|speed| mt_s(&speed, slot.extended_speed())),
        configured_speed_mt_s: configured.and_then(|speed| mt_s(&speed, extended)),
        manufacturer: text(&slot.manufacturer()),
        serial: text(&slot.serial_number()),
        asset_tag: text(&slot.asset_tag()),
        part_number: text(&slot.part_number()),
        rank: rank.filter(|rank| *rank > 0),
        total_width_bits: known(slot.total_width()),
        data_width_bits: known(slot.data_width()),
        min_voltage_mv: known(slot.minimum_voltage()),
        max_voltage_mv: known(slot.maximum_voltage()),
        configured_voltage_mv: known(slot.configured_voltage()),
        technology: slot.memory_technology().and_then(|code| data::named("dimm.tech", code.raw)),
        firmware: text(&slot.firmware_version()),
        manufacturer_id: known(slot.module_manufacturer_id()).map(|id| hex(&id.to_le_bytes())),
        // For plain DRAM this repeats the whole size.
        volatile_bytes: volatile_bytes.filter(|_| non_volatile_bytes.is_some()),
        non_volatile_bytes,
        ..dimm
    }
}

/// The size of a module's part; `None` if it has none or the size is unknown.
fn part_bytes(size: &MemoryIndicatedSize) -> Option<u64> {
    match size {
        MemoryIndicatedSize::Bytes(bytes) if *bytes > 0 => Some(*bytes),
        _ => None,
    }
}

/// Sum of the ranges that the arrays map (type 19).
fn mapped_bytes(table: &Smbios) -> Option<u64> {
    let ranges = table.all::<SMBiosMemoryArrayMappedAddress>().filter_map(|map| {
        let kib = map.starting_address().zip(map.ending_address());
        range(kib, map.extended_starting_address().zip(map.extended_ending_address()))
    });
    sum(ranges.map(|(from, to)| (to - from).checked_add(1))).filter(|bytes| *bytes > 0)
}

/// First and last byte of a mapped range: in KiB, or in bytes if the first KiB field has all bits set (SMBIOS 2.7).
fn range(kib: Option<(u32, u32)>, bytes: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (from, to) = match kib? {
        (u32::MAX, _) => bytes?,
        (from, to) => (u64::from(from) << 10, (u64::from(to) << 10) + 0x3ff),
    };
    (from < to).then_some((from, to))
}

/// True if the slot holds a module, and its size; nothing of a module whose size is unknown.
fn size(slot: &SMBiosMemoryDevice) -> (Option<bool>, Option<u64>) {
    let bytes = match (slot.size(), slot.extended_size()) {
        (Some(MemorySize::NotInstalled), _) => return (Some(false), None),
        (Some(MemorySize::Megabytes(mib)), _) => u64::from(mib) << 20,
        (Some(MemorySize::Kilobytes(kib)), _) if kib > 0 => u64::from(kib) << 10,
        (Some(MemorySize::SeeExtendedSize), Some(MemorySizeExtended::Megabytes(mib))) => {
            u64::from(mib) << 20
        }
        _ => return (None, None),
    };
    (Some(true), Some(bytes))
}

/// A speed in MT/s.
fn mt_s(speed: &MemorySpeed, extended: Option<MemorySpeedExtended>) -> Option<u32> {
    match (speed, extended) {
        (MemorySpeed::MTs(speed), _) => Some(u32::from(*speed)),
        (MemorySpeed::SeeExtendedSpeed, Some(MemorySpeedExtended::MTs(speed))) => Some(speed),
        _ => None,
    }
}

fn max_capacity_bytes(array: &SMBiosPhysicalMemoryArray) -> Option<u64> {
    match array.maximum_capacity()? {
        MaximumMemoryCapacity::SeeExtendedMaximumCapacity => {
            array.extended_maximum_capacity().filter(|bytes| *bytes > 0)
        }
        MaximumMemoryCapacity::Kilobytes(kib) => Some(u64::from(kib) << 10),
    }
}

fn error_correction(array: &SMBiosPhysicalMemoryArray) -> Option<String> {
    let code = array.memory_error_correction()?;
    data::named("dimm.ecc", code.raw)
}

/// The sum; `None` if a value is unknown or the sum exceeds 64 bits.
fn sum(mut values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.try_fold(0_u64, |sum, value| sum.checked_add(value?))
}

/// The value that all agree on.
fn same<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};
    use crate::testing::has;
    use serde_json::json;

    #[test]
    fn a_table_without_its_end_gives_its_whole_dimms_and_no_sums() {
        let dimm = structure(17, &[0, 0, 0, 0, 64, 0, 64, 0, 0, 0x20, 9, 0, 1], &[b"DIMM A1"]);
        let table = [dimm.as_slice(), &dimm[..12]].concat();
        let mut memory = Memory::default();
        fill(&mut memory, &formats::smbios::parse(None, &table));
        assert_eq!(memory.dimms.len(), 1);
        assert_eq!(memory.dimms[0].locator.as_deref(), Some("DIMM A1"));
        assert_eq!((memory.n_slots, memory.installed_bytes), (None, None));
    }

    #[test]
    fn sum_of_capacities_that_overflows_is_unknown() {
        let array = |handle: u8| {
            let mut fields = vec![3, 3, 6, 0, 0, 0, 0x80, 0xfe, 0xff, 1, 0];
            fields.extend([0xff; 8]);
            let mut bytes = structure(16, &fields, &[]);
            bytes[2] = handle;
            bytes
        };
        let mut memory = Memory::default();
        fill(&mut memory, &smbios(&[array(1), array(2)]));
        assert_eq!(memory.max_capacity_bytes, None);
        fill(&mut memory, &smbios(&[array(1)]));
        assert_eq!(memory.max_capacity_bytes, Some(u64::MAX));
        fill(&mut memory, &Smbios { is_complete: false, ..smbios(&[array(1)]) });
        assert_eq!(memory.max_capacity_bytes, None, "the truncated part may have another array");
    }

    /// A memory device of the given size field, 0x5c bytes long.
    fn device(size: u16, extended: u32) -> Vec<u8> {
        let mut fields = vec![0; 0x58];
        fields[0x0c - 4..0x0e - 4].copy_from_slice(&size.to_le_bytes());
        fields[0x1c - 4..0x20 - 4].copy_from_slice(&extended.to_le_bytes());
        fields[0x0e - 4] = 9;
        fields[0x10 - 4] = 1;
        fields[0x12 - 4] = 0x1a;
        fields[0x15 - 4..0x17 - 4].copy_from_slice(&3200_u16.to_le_bytes());
        fields[0x20 - 4..0x22 - 4].copy_from_slice(&0xffff_u16.to_le_bytes());
        fields[0x58 - 4..0x5c - 4].copy_from_slice(&70_000_u32.to_le_bytes());
        structure(17, &fields, &[b"A1"])
    }

    fn memory(tables: &[Vec<u8>]) -> Memory {
        let mut memory = Memory::default();
        fill(&mut memory, &smbios(tables));
        memory
    }

    #[test]
    fn sizes_come_in_mib_kib_and_the_extended_field() {
        let sizes = [(0x4000, 0), (0x8000 | 512, 0), (0x7fff, 48 << 10), (0, 0)];
        let memory = memory(&sizes.map(|(size, extended)| device(size, extended)));
        has(
            &memory,
            &json!({
                "dimms/0/size_bytes": 16_u64 << 30, "dimms/1/size_bytes": 512 << 10,
                "dimms/2/size_bytes": 48_u64 << 30, "dimms/3/size_bytes": null, "n_slots": 4,
                "n_slots_populated": 3, "installed_bytes": (64_u64 << 30) + (512 << 10),
                "dimms/0/kind": "DDR4", "dimms/0/speed_mt_s": 3200, "dimms/0/configured_speed_mt_s": 70_000,
                // An empty slot has no facts of a module.
                "dimms/3/kind": null,
            }),
        );
    }

    /// The module of a structure with these bytes at these offsets.
    fn module(bytes: &[(usize, &[u8])], strings: &[&[u8]]) -> Dimm {
        let mut fields = vec![0; 0x58];
        for (at, bytes) in [(0x0c, &[1][..])].iter().chain(bytes) {
            fields[at - 4..at - 4 + bytes.len()].copy_from_slice(bytes);
        }
        memory(&[structure(17, &fields, strings)]).dimms.remove(0)
    }

    #[test]
    fn non_volatile_module_reports_its_parts_firmware_and_maker() {
        let with = |non_volatile: u64, volatile: u64, maker: [u8; 2]| {
            let (non_volatile, volatile) = (non_volatile.to_le_bytes(), volatile.to_le_bytes());
            let bytes =
                [(0x2b, &[1][..]), (0x2c, &maker), (0x34, &non_volatile), (0x3c, &volatile)];
            module(&bytes, &[b"1.2.0.5446"])
        };
        has(
            &with(126 << 30, 2 << 30, [0x80, 0x89]),
            &json!({
                "non_volatile_bytes": 126_u64 << 30, "volatile_bytes": 2_u64 << 30,
                "firmware": "1.2.0.5446", "manufacturer_id": "8089",
            }),
        );
        let none =
            json!({"non_volatile_bytes": null, "volatile_bytes": null, "manufacturer_id": null});
        has(&with(0, 32 << 30, [0, 0]), &none);
        assert_eq!(with(u64::MAX, u64::MAX, [0xff; 2]).non_volatile_bytes, None);
    }

    #[test]
    fn plain_dram_has_no_technology() {
        for (code, expected) in [
            (2, None),
            (3, None),
            (4, Some("NVDIMM-N")),
            (6, Some("NVDIMM-P")),
            (7, Some("Intel Optane persistent memory")),
        ] {
            assert_eq!(module(&[(0x28, &[code])], &[]).technology.as_deref(), expected);
        }
    }

    #[test]
    fn module_of_unknown_size_makes_the_total_unknown() {
        let memory = memory(&[device(0x4000, 0), device(0xffff, 0)]);
        assert_eq!(memory.installed_bytes, None);
        assert_eq!(memory.n_slots, Some(2));
        assert_eq!(memory.n_slots_populated, None, "the second slot may hold a module or none");
        assert_eq!(memory.dimms[1].is_populated, None);
    }

    #[test]
    fn table_with_too_many_slots_is_not_counted() {
        let slots = |n: usize| memory(&vec![structure(17, &[0; 0x11], &[]); n]);
        assert_eq!(slots(LIMIT_SLOTS).n_slots, Some(LIMIT_SLOTS));
        let many = slots(LIMIT_SLOTS + 1);
        assert_eq!((many.dimms.len(), many.n_slots), (LIMIT_SLOTS, None));
    }

    #[test]
    fn slot_of_a_flash_array_is_not_system_memory() {
        let array = structure(16, &[3, 4, 3, 0, 0, 0, 1, 0, 0, 1, 0], &[]);
        let mut slot = device(16, 0);
        slot[4..6].copy_from_slice(&7_u16.to_le_bytes());
        let memory = memory(&[array, slot]);
        assert_eq!((memory.n_slots, memory.installed_bytes), (None, None));
    }

    /// A structure whose fields are given as numbers with their width in bytes.
    fn fields(parts: &[(u64, usize)]) -> Vec<u8> {
        parts.iter().flat_map(|(value, width)| value.to_le_bytes()[..*width].to_vec()).collect()
    }

    #[test]
    fn mapped_addresses_in_kib_or_bytes_belong_to_their_module() {
        let array = structure(19, &fields(&[(0, 4), (0x3f_ffff, 4), (7, 2), (1, 1)]), &[]);
        let none = u64::from(u32::MAX);
        let (from, to) = (1 << 42, (1 << 42) + (1 << 30) - 1);
        let high = fields(&[(none, 4), (none, 4), (7, 2), (1, 1), (from, 8), (to, 8)]);
        let map = fields(&[(0x10_0000, 4), (0x1f_ffff, 4), (7, 2), (7, 2), (0, 3)]);
        let (high, map) = (structure(19, &high, &[]), structure(20, &map, &[]));
        let memory = memory(&[device(0x4000, 0), array, high, map]);
        assert_eq!(memory.mapped_bytes, Some((4 << 30) + (1 << 30)));
        assert_eq!(memory.dimms[0].mapped_from, Some(1 << 30));
        assert_eq!(memory.dimms[0].mapped_to, Some((2 << 30) - 1));
    }

    #[test]
    fn recorded_error_is_named_and_no_error_is_absent() {
        let with = |kind: u8, code: u8| {
            let mut slot = device(0x4000, 0);
            slot[6..8].copy_from_slice(&9_u16.to_le_bytes());
            let mut error = structure(kind, &[code, 2, 2], &[]);
            error[2] = 9;
            memory(&[slot, error]).dimms[0].firmware_error.clone()
        };
        assert_eq!(with(18, 0x08).as_deref(), Some("Multi-bit error"));
        assert_eq!(with(33, 0x0e).as_deref(), Some("Uncorrectable error"));
        assert_eq!((with(18, 0x03), with(16, 0x08)), (None, None));
    }

    #[test]
    fn truncated_structure_has_no_size() {
        for length in 0..0x58 {
            let short = structure(17, &vec![1; length], &[]);
            let memory = memory(&[short]);
            assert_eq!(memory.n_slots, Some(1));
        }
    }
}
