//! Collects the secrets of a machine: values of the report, values in files whose names or formats mark them as secret,
//! and anything that looks like a secret elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use formats::command_line::{self, is_secret_name};
use formats::hex::hex;
use formats::lvm::{Volume, is_id, is_volume};
use formats::{Encoding, Field, Kind};
use probes::machine::Recorded;
use serde_json::Value;

use super::super::each_text;
use super::disks;
use super::secret::{Secret, Secrets};
use super::sources::{self, COMMAND_LINE, guid, ip, latin, turned};

/// Files that contain addresses as text.
const ADDRESS_FILES: [&str; 4] =
    ["etc/resolv.conf", "etc/hosts", "proc/self/mountinfo", "proc/mounts"];
const EFI: &str = "sys/firmware/efi/";

/// Collects all secrets of the machine that `report` describes.
pub(super) fn secrets(recorded: &Recorded, report: &Value) -> Secrets {
    let mut secrets = Secrets::default();
    each_text("", report, &mut |key, text| {
        if key != "raw_base64" {
            secrets.named(key, text);
        }
    });
    let folders = recorded.directories.iter();
    let listed =
        folders.flat_map(|(path, names)| names.iter().map(|name| (path.starts_with(EFI), name)));
    let paths = recorded.files.keys().map(|path| (path.starts_with(EFI), path));
    for (is_efi, name) in listed.chain(paths) {
        if is_efi { secrets.variable(name) } else { secrets.in_text(name) }
    }
    recorded.links.values().for_each(|target| secrets.in_text(target));
    for (path, content) in &recorded.files {
        in_file(path, content, &mut secrets);
        secrets.all.extend(volume(&recorded.files, path, content).map(Secret::Volume));
    }
    disks::entry_guids(&recorded.files).for_each(|id| secrets.named("uuid", &guid(&id)));
    let paths = recorded.files.keys().chain(recorded.links.keys()).chain(recorded.links.values());
    secrets.finish(&paths.flat_map(|path| path.split('/')).collect::<BTreeSet<&str>>());
    secrets
}

fn in_file(path: &str, content: &[u8], secrets: &mut Secrets) {
    let name = path.rsplit('/').next().unwrap_or_default();
    for field in sources::fields(path, content) {
        in_field(&field, field.bytes(content), secrets);
    }
    let networks = sources::networks(path, content).into_iter();
    secrets.networks.extend(networks.map(|(ip, n_bits)| (Ipv4Addr::from(ip), n_bits)));
    let Ok(text) = std::str::from_utf8(content) else { return };
    if path.starts_with(EFI) {
        return;
    }
    secrets.in_text(text);
    if ADDRESS_FILES.contains(&path) {
        in_addresses(text, secrets);
    }
    by_file_name(name, text, secrets);
    let is_short = text.len() < 300 && text.trim().lines().count() == 1;
    if is_short && !path.starts_with("proc/") || name == "hostname" {
        secrets.named(name, text.trim_matches(['\0', '\n', ' ']));
    }
    let has_short = text.contains("ID_SERIAL_SHORT=");
    let is_list = path != COMMAND_LINE;
    let lines = text.lines().filter(|_| is_list);
    for (key, value) in lines.filter_map(|line| line.split_once('=')) {
        let key = key.trim_start_matches("E:");
        // The long form joins vendor, model and the short form.
        if !(has_short && key.ends_with("_SERIAL")) {
            secrets.named(key, value.trim_matches('"'));
        }
    }
}

/// Collects secrets that the file name alone reveals.
fn by_file_name(name: &str, text: &str, secrets: &mut Secrets) {
    match name {
        // Of NVMe over fabrics: traddr=<address>,trsvcid=<port>,…
        "address" if text.contains("traddr=") => in_addresses(text, secrets),
        // Of an iSCSI connection.
        "persistent_address" => secrets.host(text),
        // Of AMD's compute nodes, in decimal digits; elsewhere they are hexadecimal.
        "properties" => {
            let ids = text.lines().filter_map(|line| {
                ["unique_id ", "hive_id "].iter().find_map(|key| line.trim().strip_prefix(key))
            });
            ids.for_each(|id| secrets.decimal(id));
        }
        "xgmi_device_id" | "xgmi_hive_id" => secrets.decimal(text),
        _ => {}
    }
}

/// Returns the LVM volume that a file in sysfs or in udev's database names.
fn volume(files: &BTreeMap<String, Vec<u8>>, path: &str, content: &[u8]) -> Option<Volume> {
    let text = |content| std::str::from_utf8(content).ok();
    if path.starts_with("run/udev/") {
        let text = text(content)?;
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            (!value.is_empty()).then(|| value.to_owned())
        };
        let (group, name) = (value("E:DM_VG_NAME=")?, value("E:DM_LV_NAME=")?);
        return Some(Volume { group, name, layer: None });
    }
    let mapping = path.strip_suffix("/dm/uuid").filter(|_| is_volume(content))?;
    Volume::parse(text(files.get(&format!("{mapping}/dm/name"))?)?.trim())
}

fn in_field(field: &Field, bytes: &[u8], secrets: &mut Secrets) {
    let text = || field.encoding.decode(bytes).unwrap_or_default();
    match (field.kind, field.encoding) {
        (Kind::Arguments, _) => in_line(&text(), secrets),
        (Kind::Description, _) => in_description(&text(), secrets),
        (Kind::Identifier, Encoding::Text) => secrets.named("wwid", &latin(bytes)),
        (Kind::HostName, Encoding::Text) => secrets.named("hostname", &latin(bytes)),
        (Kind::Serial, Encoding::Text) if is_id(&latin(bytes)) => {
            secrets.named("uuid", &latin(bytes));
        }
        (Kind::Serial | Kind::Secret, Encoding::Text) => secrets.text(&latin(bytes)),
        (Kind::Serial, Encoding::Guid) => secrets.named("uuid", &guid(bytes)),
        (Kind::Serial | Kind::Mac, Encoding::Bytes) => number(&hex(bytes), &turned(bytes), secrets),
        (Kind::Serial, Encoding::LittleEndian) => number(&turned(bytes), &hex(bytes), secrets),
        (Kind::Serial | Kind::Mac, Encoding::Hex) => {
            let digits: String = latin(bytes).chars().filter(char::is_ascii_hexdigit).collect();
            secrets.digits(&digits);
        }
        (Kind::Address, Encoding::Bytes) => secrets.all.extend(ip(bytes).map(Secret::Address)),
        (Kind::Address, Encoding::Text) => secrets.address(&latin(bytes)),
        _ => {}
    }
}

/// A number whose bytes drivers may or may not reverse: it is the same number.
fn number(digits: &str, turned: &str, secrets: &mut Secrets) {
    if !secrets.has_digits(turned) {
        secrets.digits(digits);
    }
}

/// Collects the secrets in kernel arguments or a URL.
fn in_line(line: &str, secrets: &mut Secrets) {
    secrets.in_text(line);
    in_addresses(line, secrets);
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
    secrets.all.extend(command_line::volumes(line).into_iter().map(Secret::Volume));
    command_line::identities(line).for_each(|id| secrets.link(id));
    for field in command_line::fields(line) {
        in_field(&field, field.bytes(line.as_bytes()), secrets);
    }
}

/// `UEFI PXEv4 (MAC:0C42A1DEADBE)`, as firmware names a boot entry.
fn in_description(text: &str, secrets: &mut Secrets) {
    secrets.in_text(text);
    in_addresses(text, secrets);
    for (at, word) in text.match_indices("MAC") {
        let rest = text.get(at + word.len()..).unwrap_or_default();
        let rest = rest.trim_start_matches([':', '(', ' ', '=']);
        let is_part = |c: &char| c.is_ascii_hexdigit() || ":-".contains(*c);
        let digits: String =
            rest.chars().take_while(is_part).filter(char::is_ascii_hexdigit).collect();
        if digits.len() == 12 {
            secrets.digits(&digits);
        }
    }
}

/// Collects addresses in any text, and the domains in a resolver's configuration.
fn in_addresses(text: &str, secrets: &mut Secrets) {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    for token in text.split(|c: char| !is_part(c)) {
        secrets.address(token.trim_end_matches([':', '.']));
        let parts = token.split(':').filter_map(|part| part.parse::<Ipv4Addr>().ok());
        secrets.all.extend(parts.map(|part| Secret::Address(part.into())));
    }
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if matches!(words.next(), Some("search" | "domain")) {
            words.for_each(|word| secrets.host(word));
        }
    }
}
