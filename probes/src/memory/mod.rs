//! Memory: four totals that may differ, the DIMMs with their ECC counts, and huge pages.
//!
//! - installed: the sum of SMBIOS type 17;
//! - firmware map: `System RAM` in `/sys/firmware/memmap` (`Documentation/ABI/testing/sysfs-firmware-memmap`);
//! - kernel present: present pages in `/proc/zoneinfo`;
//! - usable: `MemTotal` of `/proc/meminfo`.
//!
//! The memory blocks of `/sys/devices/system/memory` are read only on request: there are thousands,
//! and a partly filled block counts in full.

mod blocks;
mod cxl;
pub(crate) mod dax;
mod dimms;
mod ecc;
mod nvdimm;
mod page;
mod place;
mod totals;

use std::collections::BTreeMap;

pub use cxl::CxlMemory;
pub use dax::DaxDevice;
pub(crate) use ecc::{slot_named, slot_of};
pub use nvdimm::{Nvdimm, PersistentMemory, PersistentNamespace, PersistentRegion};
pub(crate) use place::candidates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(crate) use totals::{hugepages_in, mem_total_bytes};

use crate::machine::Machine;
use crate::smbios;

/// The memory.
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Memory {
    /// Sum of the sizes of the DIMMs that the firmware lists; `None` without SMBIOS type 17.
    pub installed_bytes: Option<u64>,
    /// System RAM in the firmware's memory map; `None` on machines without a map.
    pub firmware_map_bytes: Option<u64>,
    /// Pages that the kernel has, times their size; `None` if the page size is unknown, as in a capture
    /// of an Arm or POWER machine by another program.
    pub kernel_present_bytes: Option<u64>,
    /// The same by NUMA node (`present` of the zones in `/proc/zoneinfo`).
    #[serde(
        deserialize_with = "crate::by_number::deserialize",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub kernel_present_bytes_by_node: BTreeMap<u32, u64>,
    /// Online memory blocks times the size of a block (`/sys/devices/system/memory/memoryN/state`);
    /// only with `--memory-blocks`. A partly filled block counts in full.
    pub online_blocks_bytes: Option<u64>,
    /// The same by zone, e.g. `Normal`, `Movable` (`memoryN/valid_zones`); a block that spans several
    /// is in none of them. Only with `--memory-blocks`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub online_blocks_bytes_by_zone: BTreeMap<String, u64>,
    /// Memory blocks that are present but offline, times the size of a block; only with
    /// `--memory-blocks`.
    pub offline_blocks_bytes: Option<u64>,
    /// Memory that the firmware's arrays map to addresses (SMBIOS type 19, DSP0134 section 7.20).
    pub mapped_bytes: Option<u64>,
    /// Memory that the kernel can allocate (`MemTotal`).
    pub usable_bytes: Option<u64>,
    /// Number of slots that the firmware lists.
    pub n_slots: Option<usize>,
    /// Number of these that contain a module; `None` if that is unknown for one of them.
    pub n_slots_populated: Option<usize>,
    /// Error correction of the arrays, e.g. `Multi-bit ECC`; `None` if they differ or do not report it.
    pub error_correction: Option<String>,
    /// Largest capacity of the arrays.
    pub max_capacity_bytes: Option<u64>,
    /// Slots of system memory in table order, populated or not.
    pub dimms: Vec<Dimm>,
    /// Counts of corrected and uncorrected errors from the memory controllers' drivers.
    pub ecc: Vec<EccCount>,
    /// Huge pages by size.
    pub hugepages: Vec<HugePages>,
    /// CXL memory devices, by name.
    pub cxl: Vec<CxlMemory>,
    /// Memory that is or was a separate device (DAX), by name.
    pub dax: Vec<DaxDevice>,
    /// NVDIMMs, and the regions and namespaces on them.
    pub persistent: Option<PersistentMemory>,
}

/// At most this many devices of one bus are read.
const LIMIT_DEVICES: usize = 4096;

/// A slot for a memory module, and the module in it (SMBIOS type 17).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dimm {
    /// Name of the slot that is printed on the board, e.g. `A1`; not always unique.
    pub locator: Option<String>,
    /// Name of the bank.
    pub bank_locator: Option<String>,
    /// True if it contains a module; `None` if the firmware does not know the size.
    pub is_populated: Option<bool>,
    /// Size of the module; `None` for an empty slot.
    pub size_bytes: Option<u64>,
    /// Type, e.g. `DDR4`.
    pub kind: Option<String>,
    /// Form factor, e.g. `DIMM`.
    pub form_factor: Option<String>,
    /// Rated speed in MT/s.
    pub speed_mt_s: Option<u32>,
    /// Configured speed in MT/s.
    pub configured_speed_mt_s: Option<u32>,
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Asset tag.
    pub asset_tag: Option<String>,
    /// Part number.
    pub part_number: Option<String>,
    /// Number of ranks.
    pub rank: Option<u8>,
    /// Width of the data in bits.
    pub data_width_bits: Option<u16>,
    /// Width of data and error correction in bits.
    pub total_width_bits: Option<u16>,
    /// Configured voltage in mV.
    pub configured_voltage_mv: Option<u16>,
    /// Lowest operating voltage in mV.
    pub min_voltage_mv: Option<u16>,
    /// Highest operating voltage in mV.
    pub max_voltage_mv: Option<u16>,
    /// Technology if it is not plain DRAM, e.g. `NVDIMM-P`.
    pub technology: Option<String>,
    /// Version of the module's firmware (offset 2Bh), for modules that have one, such as NVDIMMs.
    pub firmware: Option<String>,
    /// The manufacturer's two-byte JEDEC id (JEP-106: bank, then number, each with parity) as in the
    /// module's SPD, e.g. `802c` (2Ch).
    pub manufacturer_id: Option<String>,
    /// Size of the non-volatile part (34h), for modules that have one.
    pub non_volatile_bytes: Option<u64>,
    /// Size of the volatile part (3Ch), for modules that also have a non-volatile one.
    pub volatile_bytes: Option<u64>,
    /// First address that is mapped to the module (SMBIOS type 20, DSP0134 section 7.21); interleaved
    /// modules share a range.
    pub mapped_from: Option<u64>,
    /// Last address that is mapped to the module.
    pub mapped_to: Option<u64>,
    /// Error that the firmware recorded for the module (SMBIOS types 18 and 33, sections 7.19 and
    /// 7.34), e.g. `Multi-bit error`; `None` if it recorded none.
    pub firmware_error: Option<String>,
    /// Corrected errors since boot; `None` if no driver's label names this slot.
    pub ecc_correctable: Option<u64>,
    /// Uncorrected errors since boot; `None` if no driver's label names this slot.
    pub ecc_uncorrectable: Option<u64>,
}

/// Error counts of a DIMM or rank from the driver of its memory controller.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EccCount {
    /// The driver's name for it, e.g. `mc0/dimm1`. `mc0` counts all errors if the driver has no DIMMs,
    /// else those without a known DIMM (`ce_noinfo_count`, `ue_noinfo_count`).
    pub name: String,
    /// The label that the driver or the administrator gave it.
    pub label: Option<String>,
    /// Its location in the controller's numbering, e.g. `channel 0 slot 1`
    /// (`dimm_location`, `Documentation/ABI/testing/sysfs-devices-edac`).
    pub location: Option<String>,
    /// The controller as its driver names it, e.g. `Skylake Socket#0 IMC#0` (`mc_name`).
    pub controller: Option<String>,
    /// Error detection mode, e.g. `S4ECD4ED` (`dimm_edac_mode`).
    pub mode: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Corrected errors since boot.
    pub correctable: Option<u64>,
    /// Uncorrected errors since boot.
    pub uncorrectable: Option<u64>,
}

/// Huge pages of one size.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HugePages {
    /// Size of a page.
    pub size_bytes: u64,
    /// Total number.
    pub n_total: Option<u64>,
    /// Number that are free.
    pub n_free: Option<u64>,
}

/// Reads the memory.
pub fn memory(machine: &Machine) -> Memory {
    let meminfo = machine.text("proc/meminfo").unwrap_or_default();
    let by_node = totals::kernel_present_bytes_by_node(machine).unwrap_or_default();
    let mut memory = Memory {
        firmware_map_bytes: totals::firmware_map_bytes(machine),
        kernel_present_bytes: by_node.values().copied().reduce(u64::saturating_add),
        kernel_present_bytes_by_node: by_node,
        cxl: cxl::memories(machine),
        dax: dax::devices(machine),
        persistent: nvdimm::persistent(machine),
        usable_bytes: mem_total_bytes(&meminfo),
        ecc: ecc::counts(machine),
        hugepages: totals::hugepages(machine, &meminfo),
        ..Memory::default()
    };
    if machine.extras().memory_blocks {
        blocks::fill(&mut memory, machine);
    }
    if memory.usable_bytes.is_none() && !meminfo.is_empty() {
        let found = crate::machine::quote(meminfo.lines().next().unwrap_or_default());
        machine.problem("proc/meminfo", found, "a line such as MemTotal: 16384 kB");
    }
    // The kernel cannot allocate pages that are not present, so the two files do not belong together
    // (one test machine of procfs mixes the files of two).
    if memory.usable_bytes > memory.kernel_present_bytes
        && let Some(present) = memory.kernel_present_bytes.take()
    {
        let expected = "at least as much memory as MemTotal of /proc/meminfo";
        machine.problem("proc/zoneinfo", format!("{present} bytes present"), expected);
        memory.kernel_present_bytes_by_node.clear();
    }
    if let Some(table) = smbios::read(machine) {
        dimms::fill(&mut memory, &table);
    }
    ecc::assign(&mut memory);
    memory
}

/// The names in `dir` for which `is_wanted` holds, up to the limit.
fn devices(machine: &Machine, dir: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = machine.list(dir);
    names.retain(|name| is_wanted(name));
    if names.len() > LIMIT_DEVICES {
        let found = format!("{} devices", names.len());
        machine.problem(dir, found, format!("at most {LIMIT_DEVICES}; only the first are read"));
        names.truncate(LIMIT_DEVICES);
    }
    names
}

/// The number of a NUMA node in the file at `path`; -1 means none.
fn node(machine: &Machine, path: &str) -> Option<u32> {
    machine.number::<i64>(path).and_then(|node| u32::try_from(node).ok())
}

/// A whole number, hexadecimal with the prefix `0x`.
pub(crate) fn parse_size(text: &str) -> Result<u64, &'static str> {
    let size = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    size.map_err(|_| "a whole number such as 4096 or 0x1000")
}
