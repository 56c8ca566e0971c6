//! Maps each file of a capture to its format and to the secrets in it. The crate `formats` declares the
//! secret fields of a format next to its parser.

use std::net::IpAddr;

use formats::guid::swapped;
use formats::hex::hex;
use formats::{
    Edit, Field, Kind, cper, dhcp, efi, fib_trie, fru, labelled, lldp, megaraid, mountinfo,
    netlink, smbios, splice, vpd,
};

use super::disks;

/// Folders of the DHCP clients.
const LEASES: &str = "run/systemd/netif/ var/lib/NetworkManager/ run/NetworkManager/ var/lib/dhclient/ var/lib/dhcp/";
/// A controller's answers begin with a completion code.
const COMPLETION_CODE_BYTES: usize = 1;
/// The kernel's arguments.
pub(super) const COMMAND_LINE: &str = "proc/cmdline";

/// Returns the secret fields in the file at `path`; none if its format is unknown here.
pub(super) fn fields(path: &str, content: &[u8]) -> Vec<Field> {
    let text = || std::str::from_utf8(content).unwrap_or_default();
    match path {
        "sys/firmware/dmi/tables/DMI" => smbios::fields(content),
        "sys/firmware/acpi/tables/data/BERT" => cper::fields(content),
        "kernel/lldp/frames" => lldp::fields(content),
        COMMAND_LINE => vec![Field::text(0..content.len(), Kind::Arguments)],
        "proc/cpuinfo" => labelled::cpuinfo(text()),
        "proc/net/fib_trie" => fib_trie::fields(text()),
        "proc/sysinfo" => labelled::sysinfo(text()),
        _ if path.ends_with("/symbolic_name") => labelled::symbolic_name(text()),
        _ if is_host_name(path) => host_name(text()),
        _ if is_lease(path) => dhcp::fields(text()),
        _ if is_mount_table(path) => mountinfo::fields(text()),
        _ if disks::is_disk(path) => disks::fields(path, content),
        _ if path.ends_with("/vpd_pg80") => vpd::serial_fields(content),
        _ if path.ends_with("/vpd_pg83") => vpd::designator_fields(content),
        _ => {
            if let Some(name) = variable(path) {
                efi::fields(name, content)
            } else if let Some(question) = below(path, "kernel/megaraid/") {
                megaraid::fields(question, content)
            } else if let Some(part) = below(path, "kernel/ipmi/fru/") {
                fru_fields(part, content)
            } else {
                list(path).map(|list| netlink::fields(list, content)).unwrap_or_default()
            }
        }
    }
}

/// Returns the networks in a table of addresses or routes.
pub(super) fn networks(path: &str, content: &[u8]) -> Vec<([u8; 4], u8)> {
    match std::str::from_utf8(content) {
        Ok(text) if path == "proc/net/fib_trie" => fib_trie::networks(text),
        _ => list(path).map(|list| netlink::networks(list, content)).unwrap_or_default(),
    }
}

/// Returns the file at `path` with replacements for spans of [`fields`], and with the resulting lengths and checksums;
/// a wrong checksum stays wrong. Only an EFI variable and the command line may become longer or shorter.
pub(super) fn edited(path: &str, content: &[u8], edits: Vec<Edit>) -> Vec<u8> {
    if let Some(name) = variable(path) {
        return efi::splice(name, content, &edits).unwrap_or_else(|| content.to_vec());
    }
    let mut edits = edits;
    edits.retain(|(span, put)| put.len() == span.len() || path == COMMAND_LINE);
    splice(content, 0, &edits)
}

/// Restores a correct checksum in those parts of a file that had one, whatever was replaced.
pub(super) fn reseal(path: &str, original: &[u8], content: &mut [u8]) {
    let Some(part) = below(path, "kernel/ipmi/fru/") else { return };
    let original = original.get(COMPLETION_CODE_BYTES..).unwrap_or_default();
    let content = content.get_mut(COMPLETION_CODE_BYTES..).unwrap_or_default();
    if fru_area(part).is_some() {
        fru::reseal(original, content);
    } else if part == "records" {
        fru::reseal_records(original, content);
    }
}

/// Returns true if the file at `path` is a lease.
pub(super) fn is_lease(path: &str) -> bool {
    LEASES.split(' ').any(|folder| path.starts_with(folder))
}

/// Returns true if the file at `path` lists mounts, whether of one process or of all.
fn is_mount_table(path: &str) -> bool {
    path.starts_with("proc/") && matches!(path.rsplit('/').next(), Some("mounts" | "mountinfo"))
}

/// Returns true if the file at `path` contains only the host name or its domain.
fn is_host_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["hostname", "nodename", "domainname", "ibm,partition-name"].contains(&name)
}

fn host_name(text: &str) -> Vec<Field> {
    let name = text.trim_matches(['\0', '\n', ' ']);
    let start = text.find(name).unwrap_or_default();
    vec![Field::text(start..start + name.len(), Kind::HostName)]
}

/// Returns the name of the EFI variable at `path`.
fn variable(path: &str) -> Option<&str> {
    path.strip_prefix("sys/firmware/efi/efivars/")
}

/// Returns the question to the device in `folder` that the file at `path` answers: `board`, `drive-8`, …
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    Some(path.strip_prefix(folder)?.split_once('/')?.1)
}

fn fru_area(part: &str) -> Option<fru::Area> {
    match part {
        "chassis" => Some(fru::Area::Chassis),
        "board" => Some(fru::Area::Board),
        "product" => Some(fru::Area::Product),
        _ => None,
    }
}

fn fru_fields(part: &str, answer: &[u8]) -> Vec<Field> {
    let content = answer.get(COMPLETION_CODE_BYTES..).unwrap_or_default();
    let fields = match fru_area(part) {
        Some(area) => fru::fields(area, content),
        None if part == "records" => fru::record_fields(content),
        None => Vec::new(),
    };
    fields.into_iter().map(|field| field.moved(COMPLETION_CODE_BYTES)).collect()
}

/// Identifies the kernel's answer at `path` as a list.
fn list(path: &str) -> Option<netlink::List> {
    match path {
        "kernel/rtnetlink/address" => Some(netlink::List::Addresses),
        "kernel/rtnetlink/route" => Some(netlink::List::Routes),
        _ => None,
    }
}

/// Returns the digits of a number whose lowest byte comes first.
pub(super) fn turned(bytes: &[u8]) -> String {
    hex(bytes.iter().rev())
}

/// Returns four or sixteen bytes as an address.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Returns a GUID's digits, whose first three parts are stored last byte first; none if it is truncated.
pub(super) fn guid(bytes: &[u8]) -> String {
    bytes.try_into().map_or_else(|_| String::new(), |bytes| hex(&swapped(bytes)))
}

/// Decodes Latin-1 and strips the padding of the field.
pub(super) fn latin(bytes: &[u8]) -> String {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    text.trim_matches(['\0', ' ']).to_owned()
}
