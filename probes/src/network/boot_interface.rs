//! The port that the machine booted from. There are three sources: `BOOTIF=`, which a boot loader
//! adds to the command line; the iBFT of an iSCSI boot (`/sys/firmware/ibft`); and the device path of
//! the current UEFI boot entry (UEFI 2.10, 3.1.3 and 10.3.5.11).

use formats::command_line::{Argument, arguments};
use formats::device_path;
use formats::efi::{self, LoadOption};
use formats::mac;

use super::interface::Interface;
use crate::machine::Machine;

const EFI_VARIABLES: &str = "sys/firmware/efi/efivars";

/// Marks the port whose MAC the boot used. Nothing is marked if no source names a MAC, and a port
/// with an unknown MAC is never marked.
pub(super) fn mark(machine: &Machine, interfaces: &mut [Interface]) {
    let macs = boot_macs(machine);
    if macs.is_empty() {
        return;
    }
    let is_port = |interface: &Interface| {
        interface.kind.as_deref().is_none_or(|kind| matches!(kind, "physical" | "wireless"))
    };
    let has = |mac: &Option<String>| mac.as_ref().map(|mac| macs.contains(mac));
    let by_permanent = interfaces.iter().any(|i| is_port(i) && has(&i.permanent_mac) == Some(true));
    for interface in interfaces.iter_mut().filter(|interface| is_port(interface)) {
        let mac = if by_permanent { &interface.permanent_mac } else { &interface.current_mac };
        interface.is_boot_interface = has(mac);
    }
}

fn boot_macs(machine: &Machine) -> Vec<String> {
    let command_line = machine.text("proc/cmdline").unwrap_or_default();
    let bootif: Vec<String> =
        arguments(&command_line).filter_map(|argument| parse_bootif(&argument)).collect();
    if bootif.is_empty() { [ibft(machine), from_efi(machine)].concat() } else { bootif }
}

/// `BOOTIF=01-aa-bb-cc-dd-ee-ff` (PXELINUX, with the hardware type before it) or `BOOTIF=aa:bb:…`.
fn parse_bootif(argument: &Argument) -> Option<String> {
    let value = argument.value.filter(|_| argument.name == "BOOTIF")?;
    let n_parts = value.split(['-', ':']).count();
    let mac = if n_parts == 7 { value.split_once(['-', ':'])?.1 } else { value };
    mac::parse(mac).ok().flatten()
}

/// The NICs in the iBFT; if they have flags, only the one that the machine booted from (bit 1).
fn ibft(machine: &Machine) -> Vec<String> {
    const DIR: &str = "sys/firmware/ibft";
    let names = machine.list(DIR);
    let nics = names.iter().filter(|name| name.starts_with("ethernet"));
    nics.filter(|name| {
        machine.number::<u32>(&format!("{DIR}/{name}/flags")).is_none_or(|flags| flags & 2 != 0)
    })
    .filter_map(|name| machine.parse(&format!("{DIR}/{name}/mac"), mac::parse).flatten())
    .collect()
}

fn from_efi(machine: &Machine) -> Vec<String> {
    let value = |name: &str| {
        let content = machine.bytes(&format!("{EFI_VARIABLES}/{}", efi::file_name(name)))?;
        efi::value(&content).map(<[u8]>::to_vec)
    };
    let current = value("BootCurrent").and_then(|value| efi::number(&value));
    let entry = current.and_then(|number| value(&efi::boot_name(number)));
    entry.and_then(|entry| boot_entry_mac(&entry)).into_iter().collect()
}

/// The first MAC in the device path of an `EFI_LOAD_OPTION`, if it belongs to an Ethernet port.
fn boot_entry_mac(option: &[u8]) -> Option<String> {
    let path = LoadOption::parse(option).path?;
    let mut ports = device_path::nodes(path).filter(|node| node.kind() == device_path::MAC);
    mac::of_bytes(&ports.next()?.ethernet_mac()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::survives_any_bytes;

    fn boot_entry() -> Vec<u8> {
        let mut mac = vec![3, 11, 37, 0, 2, 0, 0, 0, 0, 5];
        mac.resize(37, 0);
        mac[36] = 1;
        let path = [vec![1, 1, 6, 0, 0, 1], mac, vec![0x7f, 0xff, 4, 0]].concat();
        let mut option = vec![1, 0, 0, 0];
        option.extend(u16::try_from(path.len()).unwrap().to_le_bytes());
        option.extend("PXE".encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        option.extend(path);
        option
    }

    #[test]
    fn current_boot_entry_names_its_port() {
        assert_eq!(boot_entry_mac(&boot_entry()).as_deref(), Some("02:00:00:00:00:05"));
        survives_any_bytes(&boot_entry(), |bytes| drop(boot_entry_mac(bytes)));
    }

    #[test]
    fn bootif_is_read_with_and_without_the_hardware_type() {
        let parsed = |text| arguments(text).find_map(|argument| parse_bootif(&argument));
        for text in [
            "BOOTIF=01-02-00-00-00-00-0A",
            "BOOTIF=02:00:00:00:00:0a",
            "a=\"x BOOTIF=01\" BOOTIF=\"01-02-00-00-00-00-0A\"",
        ] {
            assert_eq!(parsed(text).as_deref(), Some("02:00:00:00:00:0a"), "{text}");
        }
        for text in ["BOOTIF=", "BOOTIF=eth0", "bootif=02:00:00:00:00:0a", "BOOTIF=01-00"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    /// The marks of ports of these kinds with these permanent MACs; all have the same current one.
    fn marks(files: &[(&str, &str)], ports: &[(&str, Option<&str>)]) -> Vec<Option<bool>> {
        let port = |(kind, mac): &(&str, Option<&str>)| Interface {
            kind: Some((*kind).to_owned()),
            permanent_mac: mac.map(str::to_owned),
            current_mac: Some("02:00:00:00:00:05".to_owned()),
            ..Interface::default()
        };
        let mut all: Vec<Interface> = ports.iter().map(port).collect();
        mark(&crate::testing::tree(files), &mut all);
        all.iter().map(|interface| interface.is_boot_interface).collect()
    }

    #[test]
    fn an_iscsi_boot_marks_the_nic_that_its_table_says_was_booted_from() {
        let ports =
            [("physical", Some("02:00:00:00:00:05")), ("physical", Some("02:00:00:00:00:06"))];
        let files = [
            ("sys/firmware/ibft/ethernet0/flags", "1\n"),
            ("sys/firmware/ibft/ethernet0/mac", "02:00:00:00:00:05\n"),
            ("sys/firmware/ibft/ethernet1/flags", "3\n"),
            ("sys/firmware/ibft/ethernet1/mac", "02:00:00:00:00:06\n"),
        ];
        assert_eq!(marks(&files, &ports), [Some(false), Some(true)]);
        assert_eq!(marks(&[("proc/cmdline", "quiet")], &ports), [None, None]);
    }

    #[test]
    fn a_bond_that_took_over_the_mac_is_not_the_boot_interface_and_of_a_port_without_mac_nothing_is_said()
     {
        let ports = [
            ("physical", Some("02:00:00:00:00:05")),
            ("physical", None),
            ("physical", Some("02:00:00:00:00:06")),
            ("bond", Some("02:00:00:00:00:05")),
        ];
        let files = [("proc/cmdline", "quiet BOOTIF=01-02-00-00-00-00-05")];
        assert_eq!(marks(&files, &ports), [Some(true), None, Some(false), None]);
    }
}
