//! `dmi` of the inspection data: what the collector `dmi-decode` makes of the output of `dmidecode`, with its labels
//! and its way of writing sizes (`ironic_python_agent/dmi_inspector.py`, `dmidecode.c`).

use probes::collect::Inventory;
use probes::cpu::Socket;
use probes::memory::Dimm;
use serde_json::{Value, json};

pub(super) fn tables(inventory: &Inventory) -> Value {
    let bios = inventory.bios.clone().unwrap_or_default();
    let sockets = inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
    json!({
        "bios": {
            "Vendor": bios.vendor, "Version": bios.version, "Release Date": bios.date,
            "BIOS Revision": bios.release,
        },
        "cpu": sockets.map(socket).collect::<Value>(),
        "memory": memory(inventory),
    })
}

fn socket(socket: &Socket) -> Value {
    json!({
        "Socket Designation": socket.locator,
        "Manufacturer": socket.manufacturer,
        "Version": socket.version,
        "External Clock": with_unit(socket.external_clock_mhz, "MHz"),
        "Max Speed": with_unit(socket.max_mhz, "MHz"),
        "Current Speed": with_unit(socket.boot_mhz, "MHz"),
        "Serial Number": socket.serial,
        "Asset Tag": socket.asset_tag,
        "Part Number": socket.part_number,
        "Core Count": plain(socket.n_cores),
        "Core Enabled": plain(socket.n_cores_enabled),
        "Thread Count": plain(socket.n_threads),
    })
}

fn memory(inventory: &Inventory) -> Value {
    let Some(memory) = &inventory.memory else { return Value::Null };
    json!({
        "Error Correction Type": memory.error_correction,
        "Maximum Capacity": memory.max_capacity_bytes.map(size),
        "Number Of Devices": memory.n_slots,
        "devices": memory.dimms.iter().map(dimm).collect::<Value>(),
    })
}

fn dimm(dimm: &Dimm) -> Value {
    let size = match dimm.is_populated {
        Some(false) => Some("No Module Installed".to_owned()),
        _ => dimm.size_bytes.map(size),
    };
    json!({
        "Total Width": with_unit(dimm.total_width_bits, "bits"),
        "Data Width": with_unit(dimm.data_width_bits, "bits"),
        "Size": size,
        "Form Factor": dimm.form_factor,
        "Locator": dimm.locator,
        "Bank Locator": dimm.bank_locator,
        "Type": dimm.kind,
        "Speed": with_unit(dimm.speed_mt_s, "MT/s"),
        "Manufacturer": dimm.manufacturer,
        "Serial Number": dimm.serial,
        "Asset Tag": dimm.asset_tag,
        "Part Number": dimm.part_number,
        "Rank": plain(dimm.rank.map(u16::from)),
        "Configured Memory Speed": with_unit(dimm.configured_speed_mt_s, "MT/s"),
    })
}

/// A number as text: dmidecode prints nothing else.
fn plain(number: Option<u16>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn with_unit(number: Option<impl Into<u32>>, unit: &str) -> Option<String> {
    number.map(|number| format!("{} {unit}", number.into()))
}

/// A size in the largest unit in which it is a whole number.
fn size(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB"];
    let mut rest = bytes;
    let mut unit = 0;
    while rest > 0 && rest.is_multiple_of(1024) && unit + 1 < units.len() {
        rest /= 1024;
        unit += 1;
    }
    format!("{rest} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_dmidecode_writes_them() {
        for (bytes, expected) in [
            (16 << 30, "16 GB"),
            (1536 << 20, "1536 MB"),
            (2 << 40, "2 TB"),
            (4096 << 40, "4096 TB"),
            (0, "0 bytes"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
