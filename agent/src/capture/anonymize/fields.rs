//! The files whose format is parsed by the crate `formats`: the format of each, and what happens to
//! its fields. That crate declares the secret fields of a format next to its parser.

use std::net::{IpAddr, Ipv4Addr};

use formats::command_line::is_secret_name;
use formats::fru::text::{digits, pack_digits, pack_six_bits, six_bits};
use formats::guid::swapped;
use formats::hex::hex;
use formats::{
    Encoding, Field, Kind, command_line, cper, dhcp, fib_trie, fru, labelled, lldp, megaraid,
    mountinfo, netlink, smbios, vpd,
};
use probes::dmi::is_placeholder;

use super::collect::Secrets;
use super::pseudonym::Pseudonyms;
use super::{disks, lvm};

/// Folders of the DHCP clients.
const LEASES: [&str; 5] = [
    "run/systemd/netif/",
    "var/lib/NetworkManager/",
    "run/NetworkManager/",
    "var/lib/dhclient/",
    "var/lib/dhcp/",
];
/// A controller's answers begin with a completion code.
const COMPLETION_CODE_BYTES: usize = 1;

/// The fields of the file at `path` that reveal something; none if its format is not known here.
pub(super) fn fields(path: &str, content: &[u8]) -> Vec<Field> {
    let text = || std::str::from_utf8(content).unwrap_or_default();
    match path {
        "sys/firmware/dmi/tables/DMI" => smbios::fields(content),
        "sys/firmware/acpi/tables/data/BERT" => cper::fields(content),
        "kernel/lldp/frames" => lldp::fields(content),
        "proc/cmdline" => command_line::fields(text()),
        "proc/cpuinfo" => labelled::cpuinfo(text()),
        "proc/net/fib_trie" => fib_trie::fields(text()),
        "proc/sysinfo" => labelled::sysinfo(text()),
        _ if path.ends_with("/symbolic_name") => labelled::symbolic_name(text()),
        _ if is_host_name(path) => host_name(text()),
        _ if is_lease(path) => dhcp::fields(text()),
        _ if is_mount_table(path) => mountinfo::fields(text()),
        _ if disks::is_disk(path) => disks::fields(path, content),
        _ if fru_part(path).is_some() => fru_fields(path, content),
        _ if raid_question(path).is_some() => {
            megaraid::fields(raid_question(path).unwrap_or_default(), content)
        }
        _ if path.ends_with("/vpd_pg80") => vpd::serial_fields(content),
        _ if path.ends_with("/vpd_pg83") => vpd::designator_fields(content),
        _ => list(path).map(|list| netlink::fields(list, content)).unwrap_or_default(),
    }
}

/// Whether the file at `path` is a lease.
pub(super) fn is_lease(path: &str) -> bool {
    LEASES.iter().any(|folder| path.starts_with(folder))
}

/// Whether the file at `path` is a list of mounts, of one process or of all.
fn is_mount_table(path: &str) -> bool {
    path.starts_with("proc/") && matches!(path.rsplit('/').next(), Some("mounts" | "mountinfo"))
}

/// Whether the file at `path` contains the name of the host or its domain, and nothing more.
fn is_host_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["hostname", "nodename", "domainname", "ibm,partition-name"].contains(&name)
}

fn host_name(text: &str) -> Vec<Field> {
    let name = text.trim_matches(['\0', '\n', ' ']);
    let start = text.find(name).unwrap_or_default();
    vec![Field::text(start..start + name.len(), Kind::HostName)]
}

/// The part of a replaceable unit's memory that the answer at `path` is: `board`, `records`, …
fn fru_part(path: &str) -> Option<&str> {
    Some(path.strip_prefix("kernel/ipmi/fru/")?.split_once('/')?.1)
}

/// What a RAID controller was asked for the answer at `path`: `controller`, `drive-8`, …
fn raid_question(path: &str) -> Option<&str> {
    Some(path.strip_prefix("kernel/megaraid/")?.split_once('/')?.1)
}

fn fru_area(path: &str) -> Option<fru::Area> {
    match fru_part(path)? {
        "chassis" => Some(fru::Area::Chassis),
        "board" => Some(fru::Area::Board),
        "product" => Some(fru::Area::Product),
        _ => None,
    }
}

fn fru_fields(path: &str, answer: &[u8]) -> Vec<Field> {
    let part = answer.get(COMPLETION_CODE_BYTES..).unwrap_or_default();
    let fields = match fru_area(path) {
        Some(area) => fru::fields(area, part),
        None if fru_part(path) == Some("records") => fru::record_fields(part),
        None => Vec::new(),
    };
    fields.into_iter().map(|field| field.moved(COMPLETION_CODE_BYTES)).collect()
}

/// Gives the parts of a file that had the right checksum the right one again, whatever was replaced.
pub(super) fn reseal(path: &str, original: &[u8], content: &mut [u8]) {
    let (Some(original), Some(part)) =
        (original.get(COMPLETION_CODE_BYTES..), content.get_mut(COMPLETION_CODE_BYTES..))
    else {
        return;
    };
    if fru_area(path).is_some() {
        fru::reseal(original, part);
    } else if fru_part(path) == Some("records") {
        fru::reseal_records(original, part);
    }
}

/// The list that the kernel's answer at `path` is.
fn list(path: &str) -> Option<netlink::List> {
    match path {
        "kernel/rtnetlink/address" => Some(netlink::List::Addresses),
        "kernel/rtnetlink/route" => Some(netlink::List::Routes),
        _ => None,
    }
}

/// Collects what must be replaced wherever it occurs.
pub(super) fn collect(path: &str, content: &[u8], secrets: &mut Secrets) {
    if path == "proc/cmdline" {
        return collect_line(std::str::from_utf8(content).unwrap_or_default(), secrets);
    }
    for field in fields(path, content) {
        collect_field(&field, field.bytes(content), secrets);
    }
    let networks = match std::str::from_utf8(content) {
        Ok(text) if path == "proc/net/fib_trie" => fib_trie::networks(text),
        _ => list(path).map(|list| netlink::networks(list, content)).unwrap_or_default(),
    };
    secrets.networks.extend(networks.into_iter().map(|(ip, n_bits)| (Ipv4Addr::from(ip), n_bits)));
}

/// Collects what arguments of a kernel, or a URL, hold.
pub(super) fn collect_line(line: &str, secrets: &mut Secrets) {
    for argument in command_line::arguments(line) {
        let (name, value) = match argument.value {
            // In a URL that is an argument of its own, an equals sign belongs to the query.
            Some(value) if !argument.name.contains('/') => (argument.name, value),
            _ => ("", argument.written.trim_matches('"')),
        };
        if !is_secret_name(name) {
            secrets.named(name, value);
        }
    }
    secrets.volumes.extend(command_line::volumes(line));
    command_line::identities(line).for_each(|id| secrets.link(id));
    for field in command_line::fields(line) {
        collect_field(&field, field.bytes(line.as_bytes()), secrets);
    }
}

pub(super) fn collect_field(field: &Field, bytes: &[u8], secrets: &mut Secrets) {
    match (field.kind, field.encoding) {
        (Kind::Serial, Encoding::Text) if formats::lvm::is_id(&latin(bytes)) => {
            secrets.named("uuid", &latin(bytes));
        }
        (Kind::Serial | Kind::Secret, Encoding::Text) => secrets.text(&latin(bytes)),
        (Kind::Identifier, Encoding::Text) => secrets.named("wwid", &latin(bytes)),
        (Kind::Serial, Encoding::Guid) => secrets.named("uuid", &guid(bytes)),
        (Kind::Serial | Kind::Mac, Encoding::Bytes) => secrets.digits(&hex(bytes)),
        (Kind::Serial, Encoding::LittleEndian) => secrets.digits(&turned(bytes)),
        (Kind::Serial | Kind::Mac, Encoding::Hex) => {
            let digits: String = latin(bytes).chars().filter(char::is_ascii_hexdigit).collect();
            secrets.digits(&digits);
        }
        (Kind::Address, Encoding::Bytes) => secrets.addresses.extend(ip(bytes)),
        (Kind::Address, Encoding::Text) => secrets.address(&latin(bytes)),
        (Kind::HostName, Encoding::Text) => secrets.named("hostname", &latin(bytes)),
        _ => {}
    }
}

/// Replaces in place what could be anything elsewhere: addresses as bytes, and free text.
pub(super) fn rewrite(path: &str, content: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    // The arguments of the kernel are replaced by `rewrite_line`.
    let is_line = path == "proc/cmdline";
    let is_labelled = matches!(path, "proc/cpuinfo" | "proc/sysinfo");
    for field in fields(path, content) {
        put(&field, content, |bytes| match field.kind {
            // Here a host's name may be any word, which is not replaced elsewhere.
            Kind::HostName if !is_line => {
                secrets.hosts.contains(&latin(bytes)).then(|| text(bytes, secrets, names))
            }
            Kind::Serial if is_labelled => {
                secrets.texts.contains(&latin(bytes)).then(|| text(bytes, secrets, names))
            }
            _ => replacement(&field, bytes, secrets, names),
        });
    }
}

/// Arguments of a kernel, or a URL, with what is secret at its place replaced there: it may be any word.
pub(super) fn rewrite_line(line: &str, secrets: &Secrets, names: &mut Pseudonyms) -> String {
    let mut content = line.as_bytes().to_vec();
    for field in command_line::fields(line) {
        if matches!(field.kind, Kind::Secret | Kind::HostName | Kind::FreeText) {
            put(&field, &mut content, |bytes| Some(text(bytes, secrets, names)));
        }
    }
    String::from_utf8(content).unwrap_or_default()
}

fn put(field: &Field, content: &mut [u8], with: impl FnOnce(&[u8]) -> Option<Vec<u8>>) {
    if let Some(bytes) = content.get_mut(field.span.clone())
        && let Some(new) = with(bytes)
        && new.len() == bytes.len()
    {
        bytes.copy_from_slice(&new);
    }
}

fn replacement(
    field: &Field,
    bytes: &[u8],
    secrets: &Secrets,
    names: &mut Pseudonyms,
) -> Option<Vec<u8>> {
    if field.kind == Kind::Address && field.encoding == Encoding::Bytes {
        return Some(to_bytes(names.address(ip(bytes)?)));
    }
    match (field.kind, field.encoding) {
        (Kind::FreeText, _) => {}
        (Kind::Serial, Encoding::LittleEndian) => return disk_number(bytes, secrets, names),
        (Kind::Serial, Encoding::Text) if formats::lvm::is_id(&latin(bytes)) => {
            return Some(lvm::id(&latin(bytes), names).into_bytes());
        }
        _ => return None,
    }
    let is_unset = |text: &str| is_placeholder(text.trim_matches([' ', '\0']));
    match field.encoding {
        Encoding::Text if is_unset(&latin(bytes)) => None,
        Encoding::Text => Some(text(bytes, secrets, names)),
        Encoding::BcdPlus if is_unset(&digits(bytes)) => None,
        Encoding::BcdPlus => {
            let plain = text(digits(bytes).as_bytes(), secrets, names);
            Some(pack_digits(std::str::from_utf8(&plain).ok()?))
        }
        Encoding::SixBit if is_unset(&six_bits(bytes)) => None,
        Encoding::SixBit => {
            let plain = text(six_bits(bytes).as_bytes(), secrets, names);
            Some(pack_six_bits(std::str::from_utf8(&plain).ok()?, bytes.len()))
        }
        Encoding::Bytes => Some(names.bytes(bytes)),
        _ => None,
    }
}

/// Text with a replacement for what is between its blanks. A MAC or UUID is replaced as one, wherever
/// it occurs.
fn text(bytes: &[u8], secrets: &Secrets, names: &mut Pseudonyms) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return names.bytes(bytes) };
    let plain = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    match text.split_once(plain) {
        Some((before, after)) if !secrets.is_number(plain) => {
            [before, &names.text(plain), after].concat().into_bytes()
        }
        _ => bytes.to_vec(),
    }
}

/// The replacement of a disk's number, whose four bytes may be anything elsewhere.
pub(super) fn disk_number(
    bytes: &[u8],
    secrets: &Secrets,
    names: &mut Pseudonyms,
) -> Option<Vec<u8>> {
    let digits = turned(bytes);
    let put = secrets.digits.contains(&digits).then(|| names.digits(&digits))?;
    let number = u32::from_str_radix(&put, 16).ok()?;
    Some(number.to_le_bytes().to_vec())
}

/// The digits of a number whose lowest byte comes first.
pub(super) fn turned(bytes: &[u8]) -> String {
    hex(bytes.iter().rev())
}

/// Four or sixteen bytes as an address.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// An address as it goes over the wire.
pub(super) fn to_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The digits of a GUID, whose first three parts have the last byte first; none of a truncated one.
fn guid(bytes: &[u8]) -> String {
    bytes.try_into().map_or_else(|_| String::new(), |bytes| hex(&swapped(bytes)))
}

/// Bytes as characters of Latin-1, without what fills a field.
pub(super) fn latin(bytes: &[u8]) -> String {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    text.trim_matches(['\0', ' ']).to_owned()
}
