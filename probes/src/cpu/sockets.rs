//! Processor sockets: SMBIOS type 4 (DSP0134 3.8, section 7.5).

use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::smbios::types::{
    ProcessorStatus, ProcessorUpgrade, SMBiosProcessorInformation, SMBiosStruct,
};
use crate::smbios::{Smbios, text};

/// A processor socket as the firmware describes it (SMBIOS type 4).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Socket {
    /// Name that is printed on the board, e.g. `CPU1`.
    pub locator: Option<String>,
    /// True if it contains a processor; `None` if the firmware does not report it.
    pub is_populated: Option<bool>,
    /// State of the processor as the firmware set it: `enabled`, `disabled by the user`, `disabled by a
    /// self-test error`, `idle` (DSP0134, section 7.5, offset 18h).
    pub status: Option<String>,
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Version, which is the model name.
    pub version: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Asset tag.
    pub asset_tag: Option<String>,
    /// Part number.
    pub part_number: Option<String>,
    /// Type, e.g. `LGA4189`, `SP5` (offset 19h), or the firmware's own name for it (32h, SMBIOS 3.8).
    /// `None` for soldered processors and for numbers without a name in this program.
    pub kind: Option<String>,
    /// Voltage of the processor in mV (11h); `None` if several are possible.
    pub voltage_mv: Option<u16>,
    /// Frequency of the external clock in MHz (12h).
    pub external_clock_mhz: Option<u16>,
    /// Frequency of the processor at boot in MHz (16h).
    pub boot_mhz: Option<u16>,
    /// Highest frequency that the socket supports, in MHz.
    pub max_mhz: Option<u16>,
    /// Number of cores of the processor.
    pub n_cores: Option<u16>,
    /// Number of cores that the firmware enabled.
    pub n_cores_enabled: Option<u16>,
    /// Number of threads of the processor.
    pub n_threads: Option<u16>,
    /// Number of threads that the firmware enabled (30h, since SMBIOS 3.6).
    pub n_threads_enabled: Option<u16>,
}

/// Sockets from SMBIOS type 4 (DSP0134, section 7.5).
pub(super) fn sockets(table: &Smbios) -> Vec<Socket> {
    table.all().map(|entry| socket(&entry)).collect()
}

fn socket(entry: &SMBiosProcessorInformation) -> Socket {
    let status = entry.status();
    let is_populated = status.as_ref().map(ProcessorStatus::socket_populated);
    // Meaningless for an empty socket, where some firmware leaves stale values.
    let of_processor =
        |value: Option<u16>| value.filter(|n| *n != 0xffff && is_populated != Some(false));
    let word = |at: usize| entry.parts().get_field_word(at).filter(|n| *n != 0);
    Socket {
        locator: text(&entry.socket_designation()),
        is_populated,
        status: status.as_ref().and_then(socket_status).map(str::to_owned),
        manufacturer: text(&entry.processor_manufacturer()),
        version: text(&entry.processor_version()),
        serial: text(&entry.serial_number()),
        asset_tag: text(&entry.asset_tag()),
        part_number: text(&entry.part_number()),
        kind: socket_kind(entry),
        voltage_mv: of_processor(entry.parts().get_field_byte(0x11).and_then(voltage_mv)),
        external_clock_mhz: of_processor(word(0x12)),
        boot_mhz: of_processor(word(0x16)),
        max_mhz: word(0x14),
        n_cores: count(entry, 0x23, 0x2a),
        n_cores_enabled: count(entry, 0x24, 0x2c),
        n_threads: count(entry, 0x25, 0x2e),
        n_threads_enabled: of_processor(word(0x30)),
    }
}

/// The count in the byte at `narrow`, or in the word at `wide` if the byte is 255; 0 and 65535 mean that it is unknown.
fn count(entry: &SMBiosProcessorInformation, narrow: usize, wide: usize) -> Option<u16> {
    let count = match entry.parts().get_field_byte(narrow)? {
        0xff => entry.parts().get_field_word(wide)?,
        count => u16::from(count),
    };
    (1..0xffff).contains(&count).then_some(count)
}

/// The state of the processor in a socket; `None` for an empty socket.
fn socket_status(status: &ProcessorStatus) -> Option<&'static str> {
    data::name("socket", status.raw & 0b111).filter(|_| status.socket_populated())
}

/// The firmware's own name for the socket if there is one, else the library's name of its number, for the sockets of
/// servers and desktops.
fn socket_kind(entry: &SMBiosProcessorInformation) -> Option<String> {
    const FAMILIES: [&str; 5] = ["LGA", "SP", "AM", "G34", "C32"];
    let upgrade = entry.processor_upgrade()?.value;
    text(&entry.socket_type()).or_else(|| match upgrade {
        ProcessorUpgrade::SocketF1207 => Some("F".to_owned()),
        ProcessorUpgrade::SocketSP3r23 => Some("SP3r2".to_owned()),
        upgrade => {
            let name = format!("{upgrade:?}");
            let name = name.strip_prefix("Socket")?;
            let is_known = FAMILIES.iter().any(|family| name.starts_with(family));
            is_known.then(|| name.replace('_', "-"))
        }
    })
}

/// With bit 7 set, tenths of a volt in the other bits; else one bit each for 5 V, 3.3 V and 2.9 V, and
/// the voltage is known if only one is set.
fn voltage_mv(code: u8) -> Option<u16> {
    match code {
        0x81..=0xff => Some(u16::from(code & 0x7f) * 100),
        1 => Some(5000),
        2 => Some(3300),
        4 => Some(2900),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};

    fn of(change: &[(usize, &[u8])]) -> Socket {
        let mut fields = vec![0; 0x34];
        fields[0x18 - 4] = 0x41;
        for (offset, bytes) in change {
            fields[offset - 4..offset - 4 + bytes.len()].copy_from_slice(bytes);
        }
        sockets(&smbios(&[structure(4, &fields, &[b"CPU0", b"LGA9999", b"A7"])])).remove(0)
    }

    #[test]
    fn socket_reports_its_type_and_the_clocks_of_its_processor() {
        let clocks = (0x12, [100, 0].as_slice());
        let changes: [(usize, &[u8]); 6] = [
            (0x04, &[1]),
            (0x11, &[0x8c]),
            clocks,
            (0x16, &[0x98, 8]),
            (0x19, &[0x3d]),
            (0x21, &[3]),
        ];
        let socket = of(&changes);
        let kind = socket.kind.as_deref();
        assert_eq!((kind, socket.asset_tag.as_deref()), (Some("LGA4189"), Some("A7")));
        assert_eq!((socket.voltage_mv, socket.external_clock_mhz), (Some(1200), Some(100)));
        assert_eq!(socket.boot_mhz, Some(2200));
        assert_eq!(of(&[(0x19, &[0xff]), (0x32, &[2])]).kind.as_deref(), Some("LGA9999"));
    }

    #[test]
    fn counts_above_255_come_from_the_wide_fields() {
        let wide: &[u8] = &[0x80, 1, 0x7c, 1, 0, 3, 0xf8, 2];
        let socket = of(&[(0x23, &[0xff, 0xff, 0xff]), (0x2a, wide)]);
        assert_eq!((socket.n_cores, socket.n_cores_enabled), (Some(384), Some(380)));
        assert_eq!((socket.n_threads, socket.n_threads_enabled), (Some(768), Some(760)));
    }

    #[test]
    fn unknown_values_are_absent_and_so_are_clocks_of_an_empty_socket() {
        let unknown = of(&[(0x19, &[2]), (0x30, &[0xff, 0xff])]);
        assert_eq!((unknown.kind, unknown.voltage_mv), (None, None));
        assert_eq!((unknown.external_clock_mhz, unknown.boot_mhz), (None, None));
        assert_eq!(unknown.n_threads_enabled, None);
        let empty = of(&[(0x18, &[0]), (0x11, &[0x8c]), (0x16, &[0x98, 8])]);
        assert_eq!((empty.is_populated, empty.voltage_mv), (Some(false), None));
        assert_eq!(empty.boot_mhz, None);
        assert_eq!([0x80, 0, 1, 3, 4].map(voltage_mv), [None, None, Some(5000), None, Some(2900)]);
    }

    #[test]
    fn processor_that_failed_its_self_test_is_not_an_empty_socket() {
        let socket_status = |raw| super::socket_status(&ProcessorStatus { raw });
        assert_eq!(socket_status(0x43), Some("disabled by a self-test error"));
        assert_eq!(socket_status(0x41), Some("enabled"));
        assert_eq!(socket_status(0x03), None, "no processor is in it");
    }
}
