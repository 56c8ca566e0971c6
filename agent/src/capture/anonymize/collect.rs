//! What must be replaced: the values of the report whose keys say so, and what looks like one of
//! them anywhere in a capture.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use formats::command_line::is_password_name;
use formats::lvm::{Volume, is_id};
use formats::wwn;
use probes::dmi::{is_known_duplicate, is_placeholder};
use probes::machine::Recorded;
use serde_json::Value;

use super::{disks, efi, fields, lvm};

/// Words in the names of keys and files whose values are a serial number or the like.
const TEXT_NAMES: [&str; 5] = ["serial", "asset_tag", "service_tag", "machine_id", "machine-id"];
/// Words in names whose values are the name of a host.
const HOST_NAMES: [&str; 6] =
    ["hostname", "nodename", "host_name", "system_name", "search_domain", "domainname"];
/// Words in names whose values hold a worldwide identifier: a UUID, WWN, GUID, or a name made of one.
const IDENTITY_NAMES: [&str; 17] = [
    "uuid",
    "wwn",
    "wwid",
    "nguid",
    "eui",
    "guid",
    "nqn",
    "iqn",
    "initiator",
    "target",
    "unique_id",
    "port_name",
    "node_name",
    "fabric_name",
    "sas_address",
    "switch_id",
    "port_id",
];
/// Files that contain addresses as text.
const ADDRESS_FILES: [&str; 5] =
    ["proc/cmdline", "etc/resolv.conf", "etc/hosts", "proc/self/mountinfo", "proc/mounts"];

/// Everything that gets a replacement.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Serial numbers, asset tags, passwords.
    pub(super) texts: BTreeSet<String>,
    /// Serial numbers that are one of `digits` or `uuids`.
    pub(super) numeric_texts: BTreeSet<String>,
    /// Names of hosts and domains.
    pub(super) hosts: BTreeSet<String>,
    /// MACs, WWNs, EUI-64s, NGUIDs, numbers of volumes: lower-case hexadecimal digits.
    pub(super) digits: BTreeSet<String>,
    /// UUIDs: 32 lower-case hexadecimal digits.
    pub(super) uuids: BTreeSet<String>,
    /// LVM's identifiers, which are texts too, without the hyphens between their groups.
    pub(super) lvm_ids: BTreeSet<String>,
    /// LVM's volumes.
    pub(super) volumes: BTreeSet<Volume>,
    /// Names of iSCSI's initiators and targets.
    pub(super) iscsi: BTreeSet<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Where networks begin, as the machine's addresses and routes say, and with how many bits.
    pub(super) networks: BTreeSet<(Ipv4Addr, u8)>,
    /// Those of `digits` that do not begin with a maker's number.
    pub(super) whole: BTreeSet<String>,
    /// Those of `digits` that occur as a decimal number too.
    pub(super) decimals: BTreeSet<String>,
    /// Addresses in another spelling than the usual one.
    pub(super) spellings: BTreeMap<String, IpAddr>,
    /// UUIDs that say what something is, e.g. types of partitions.
    public: BTreeSet<String>,
}

impl Secrets {
    /// All secrets of a machine.
    pub(super) fn of(recorded: &Recorded, report: &Value) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.in_value("", report);
        for (path, names) in &recorded.directories {
            let is_efi = path.starts_with("sys/firmware/efi/");
            for name in names {
                if is_efi { secrets.variable(name) } else { secrets.in_text(name) }
            }
        }
        recorded.links.values().for_each(|target| secrets.in_text(target));
        for (path, content) in &recorded.files {
            let is_efi = path.starts_with("sys/firmware/efi/");
            if is_efi {
                secrets.variable(path);
            } else {
                secrets.in_text(path);
            }
            secrets.in_file(path, content);
        }
        lvm::collect(&recorded.files, &mut secrets);
        disks::collect(&recorded.files, &mut secrets);
        let public = std::mem::take(&mut secrets.public);
        secrets.uuids.retain(|uuid| !public.contains(uuid));
        // The serial number of a USB root hub is the name of its controller, a place in the tree.
        let paths =
            recorded.files.keys().chain(recorded.links.keys()).chain(recorded.links.values());
        let places: BTreeSet<&str> = paths.flat_map(|path| path.split('/')).collect();
        secrets.texts.retain(|text| !places.contains(text.as_str()));
        // A serial number that is a MAC or UUID is replaced as that, so that they stay the same.
        let numbers = [&secrets.digits, &secrets.uuids];
        let is_number = |text: &str| numbers.iter().any(|all| all.contains(&text.to_lowercase()));
        let (numbers, texts) = std::mem::take(&mut secrets.texts)
            .into_iter()
            .partition(|text| is_number(&text.replace('-', "")));
        (secrets.numeric_texts, secrets.texts) = (numbers, texts);
        secrets
    }

    /// The name of an EFI variable ends with the GUID of its definer, the same on every machine.
    fn variable(&mut self, name: &str) {
        let definer = name.len().checked_sub(36).and_then(|at| name.get(at..));
        self.public.extend(definer.and_then(uuid_digits));
    }

    /// A part of the report, standing at `key`.
    fn in_value(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) if key != "raw_base64" => self.named(key, text),
            Value::Array(list) => list.iter().for_each(|value| self.in_value(key, value)),
            Value::Object(keys) => {
                let text = |key: &str| keys.get(key).and_then(Value::as_str);
                if let (Some(kind), Some(value)) = (text("kind"), text("value")) {
                    self.named(kind, value);
                }
                if text("kind") == Some("linux_raid_member") {
                    self.array(text("label").unwrap_or_default());
                }
                keys.iter().for_each(|(key, value)| self.in_value(key, value));
            }
            _ => {}
        }
    }

    fn in_file(&mut self, path: &str, content: &[u8]) {
        let name = path.rsplit('/').next().unwrap_or_default();
        efi::collect(path, content, self);
        fields::collect(path, content, self);
        let Ok(text) = std::str::from_utf8(content) else { return };
        if path.starts_with("sys/firmware/efi/") {
            return;
        }
        self.in_text(text);
        if ADDRESS_FILES.contains(&path) {
            self.in_addresses(text);
        }
        self.in_line_of(name, text);
        let is_short = text.len() < 300 && text.trim().lines().count() == 1;
        if is_short && !path.starts_with("proc/") || name == "hostname" {
            self.named(name, text.trim_matches(['\0', '\n', ' ']));
        }
        let has_short = text.contains("ID_SERIAL_SHORT=");
        let is_list = path != "proc/cmdline";
        let lines = text.lines().filter(|_| is_list);
        for (key, value) in lines.filter_map(|line| line.split_once('=')) {
            let key = key.trim_start_matches("E:");
            // The long form joins vendor, model and the short form.
            if !(has_short && key.ends_with("_SERIAL")) {
                self.named(key, value.trim_matches('"'));
            }
        }
    }

    /// What is known by the name of a file alone.
    fn in_line_of(&mut self, name: &str, text: &str) {
        match name {
            // Of NVMe over fabrics: traddr=<address>,trsvcid=<port>,…
            "address" if text.contains("traddr=") => self.in_addresses(text),
            // Of an iSCSI connection.
            "persistent_address" => self.host(text),
            // Of AMD's compute nodes, in decimal digits; elsewhere they are hexadecimal.
            "properties" => {
                let ids = text.lines().filter_map(|line| {
                    ["unique_id ", "hive_id "].iter().find_map(|key| line.trim().strip_prefix(key))
                });
                ids.for_each(|id| self.decimal(id));
            }
            "xgmi_device_id" | "xgmi_hive_id" => self.decimal(text),
            _ => {}
        }
    }

    /// An accelerator's number in decimal digits.
    fn decimal(&mut self, number: &str) {
        let Some(number) = number.trim().parse::<u64>().ok().filter(|number| *number != 0) else {
            return;
        };
        let digits = format!("{number:016x}");
        self.digits(&digits);
        self.whole.insert(digits.clone());
        self.decimals.insert(digits);
    }

    /// A value whose name may say what it is.
    pub(super) fn named(&mut self, name: &str, value: &str) {
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if name.contains("type_uuid") || name.ends_with("_entry_type") {
            self.public.extend(uuid_digits(value));
        } else if has(&TEXT_NAMES) || is_password_name(&name) {
            self.text(value);
        } else if has(&HOST_NAMES) {
            self.host(value);
        } else if has(&IDENTITY_NAMES) && !name.ends_with("_raw_hex") {
            // Of an accelerator; elsewhere a `unique_id` is longer.
            if name == "unique_id" && value.trim().len() == 16 {
                self.whole.insert(value.trim().to_lowercase());
            }
            self.identity(value, name.contains("uuid"));
        }
        if name == "portal" {
            self.portal(value);
        } else if name == "md_name" {
            self.array(value);
        }
        if !name.contains("version") && !name.contains("firmware") {
            let plain = value.split('/').next().unwrap_or_default();
            self.address(plain);
        }
        self.in_text(value);
    }

    /// `<host>:<port>`, IPv6 in brackets.
    fn portal(&mut self, value: &str) {
        let host = value.rsplit_once(':').map_or(value, |(host, _)| host);
        self.host(host.trim_start_matches('[').trim_end_matches(']'));
    }

    /// The name of an array of disks: that of the host that made it, and its own.
    fn array(&mut self, name: &str) {
        self.host(name.split_once(':').map_or("", |(host, _)| host));
    }

    /// An address, if `text` is one.
    pub(super) fn address(&mut self, text: &str) {
        let Ok(address) = text.parse::<IpAddr>() else { return };
        self.addresses.insert(address);
        if address.to_string() != text {
            self.spellings.insert(text.to_owned(), address);
        }
    }

    pub(super) fn text(&mut self, value: &str) {
        let value = value.trim();
        if value.len() >= 4 && value.is_ascii() && !is_empty(value) {
            self.texts.insert(value.to_owned());
        }
    }

    pub(super) fn host(&mut self, name: &str) {
        let name = name.trim().trim_end_matches('.');
        if name.is_empty() || name.starts_with("localhost") || name.starts_with('(') {
            return;
        }
        if name.parse::<IpAddr>().is_ok() {
            return self.address(name);
        }
        let first = name.split('.').next().unwrap_or_default();
        self.hosts.extend([name, first].map(str::to_owned).into_iter().filter(|n| n.is_ascii()));
    }

    pub(super) fn digits(&mut self, digits: &str) {
        let n_distinctive = digits.bytes().filter(|digit| !b"0fF".contains(digit)).count();
        if n_distinctive >= 3 && !is_empty(digits) {
            self.digits.insert(digits.to_lowercase());
        }
    }

    pub(super) fn uuid(&mut self, value: &str) {
        if !is_known_duplicate(value) {
            self.uuids.extend(uuid_digits(value).filter(|digits| !is_empty(digits)));
        }
    }

    /// A worldwide identifier in one of its forms, as `naa.5000…`, or a name that is made of one.
    fn identity(&mut self, value: &str, is_uuid: bool) {
        let value = value.trim();
        if wwn::multipath_id(value).is_some() {
            return self.made_name(value);
        }
        // LVM's identifiers are random letters and may begin like a prefix.
        let bare = if is_id(value) { value } else { wwn::bare(value) };
        let bare: String = bare.chars().filter(|c| !":-._".contains(*c)).collect();
        let bare = bare.as_str();
        let is_hex = bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some((number, partition)) = value.split_once('-') {
            // The number of a DOS table and the partition's.
            if number.len() == 8 && partition.len() == 2 && is_hex {
                return self.digits(number);
            }
        }
        match bare.len() {
            32 if is_hex && is_uuid => self.uuid(bare),
            40 if is_hex => self.digits(&bare[24..]),
            8 | 12 | 16 | 32 if is_hex => self.digits(bare),
            32 if bare.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                self.text(bare);
                if is_id(value) {
                    self.lvm_ids.insert(bare.to_owned());
                } else {
                    self.text(value);
                }
            }
            _ => self.made_name(value),
        }
    }

    /// A name that holds a serial number: an NVMe's or T10's identifier, an NQN or IQN.
    fn made_name(&mut self, value: &str) {
        if let Some(serial) = wwn::serial_of_wwid(value) {
            self.text(&serial);
        } else if let Some(id) = wwn::multipath_id(value) {
            self.multipath(id);
        } else if let Some(ids) = formats::lvm::ids(value) {
            for id in ids {
                self.text(id);
            }
        } else if value.starts_with("iqn.") {
            self.iscsi(value);
        } else if value.starts_with("nqn.") {
            let own = value.splitn(3, '.').nth(2).unwrap_or_default();
            let parts = own.split([':', '.']).filter(|part| {
                part.len() >= 8
                    && part.bytes().any(|b| b.is_ascii_digit())
                    && uuid_digits(part).is_none()
            });
            parts.for_each(|part| self.text(part));
        }
    }

    /// The identifier of a multipath device: a digit for its kind as `scsi_id` writes it, then the
    /// number; or the wwid of an NVMe namespace.
    fn multipath(&mut self, id: &str) {
        let is_hex = |id: &str| id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (id.get(..1), id.get(1..)) {
            // A T10 designator, or names that the vendor chose: maker, model and serial number.
            (Some("1" | "S"), Some(rest)) => {
                self.text(rest.split([' ', '_']).next_back().unwrap_or_default());
            }
            // EUI-64 and NAA names; the digit is no part of them.
            (Some("2" | "3"), Some(rest)) if matches!(rest.len(), 16 | 32) && is_hex(rest) => {
                self.digits(rest);
            }
            (Some("8"), Some(rest)) if rest.starts_with("iqn.") => self.iscsi(rest),
            _ if id.contains('.') && !id.starts_with("mpath-") => self.identity(id, false),
            _ => self.text(id),
        }
    }

    /// Whether `text` is replaced as a number or address, and not as a text.
    pub(super) fn is_number(&self, text: &str) -> bool {
        let digits = text.to_lowercase().replace([':', '-'], "");
        // The table of replacements has no mixed case.
        if text != text.to_lowercase() && text != text.to_uppercase() {
            return false;
        }
        let is_address = text.parse().is_ok_and(|address| self.addresses.contains(&address));
        is_address || self.digits.contains(&digits) || self.uuids.contains(&digits)
    }
}

/// `iqn.` and the month of a name of iSCSI, and the rest of it.
pub(super) fn split_iscsi(name: &str) -> Option<(&str, &str)> {
    let head = "iqn.2001-04.".len();
    let (start, rest) = name.split_at_checked(head)?;
    let month: Vec<&str> = start.strip_prefix("iqn.")?.strip_suffix('.')?.split('-').collect();
    let is_month = month.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    (is_month && month.len() == 2 && !rest.is_empty()).then_some((start, rest))
}

/// The digits of a UUID with its dashes, or of 32 digits; otherwise `None`.
pub(super) fn uuid_digits(text: &str) -> Option<String> {
    formats::guid::parse_any(text).map(|bytes| formats::hex::hex(&bytes))
}

/// A value that was never set, by which nothing can be recognised.
fn is_empty(value: &str) -> bool {
    is_placeholder(value) || is_known_duplicate(value)
}
