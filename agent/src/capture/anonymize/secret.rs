//! The values that must be replaced, by kind; each is recognised by its name or its form.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use formats::command_line::is_password_name;
use formats::lvm::{self, Volume};
use formats::{guid, hex, wwn};
use probes::dmi::{is_known_duplicate, is_placeholder};

/// Words in names of keys and files whose values are a serial number or similar.
const TEXT_NAMES: &str = "serial asset_tag service_tag machine_id machine-id";
/// Words in names whose values are a host name.
const HOST_NAMES: &str = "hostname nodename host_name system_name search_domain domainname";
/// Words in names whose values hold a worldwide identifier: a UUID, WWN, GUID, or a name made of one.
const IDENTITY_NAMES: &str = "uuid wwn wwid nguid eui guid nqn iqn initiator target unique_id port_name node_name \
     fabric_name sas_address switch_id port_id";

/// A value that gets a replacement. Spellings of equal length are searched for in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::capture) enum Secret {
    /// A serial number, asset tag or password.
    Text(String),
    /// A host or domain name.
    Host {
        /// The name, or its first label.
        name: String,
        /// True if it is one of the texts, too.
        is_text: bool,
    },
    /// LVM's identifier, which is a text too, without the hyphens between its groups.
    LvmId(String),
    /// The names of an LVM volume.
    Volume(Volume),
    /// The name of an iSCSI initiator or target.
    Iscsi(String),
    /// A MAC, WWN, EUI-64, NGUID or volume number: lower-case hexadecimal digits.
    Digits(String),
    /// A UUID: 32 lower-case hexadecimal digits.
    Uuid(String),
    /// A serial number that is also one of the digits or UUIDs.
    Numeric(String),
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// Digits that occur as a decimal number too.
    Decimal(String),
    /// An address in another spelling than the usual one.
    Spelled(String, IpAddr),
}

/// Everything that gets a replacement.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    pub(super) all: BTreeSet<Secret>,
    /// Known networks, from the machine's addresses and routes: first address and prefix length in bits.
    pub(super) networks: BTreeSet<(Ipv4Addr, u8)>,
    /// The digits that do not begin with a vendor number.
    pub(super) whole: BTreeSet<String>,
    /// UUIDs with a public meaning, e.g. partition types.
    public: BTreeSet<String>,
}

impl Secrets {
    pub(super) fn has_text(&self, text: &str) -> bool {
        self.all.contains(&Secret::Text(text.to_owned()))
    }

    pub(super) fn has_host(&self, name: &str) -> bool {
        let is = |is_text| self.all.contains(&Secret::Host { name: name.to_owned(), is_text });
        is(false) || is(true)
    }

    pub(super) fn has_digits(&self, digits: &str) -> bool {
        self.all.contains(&Secret::Digits(digits.to_owned()))
    }

    fn has_number(&self, digits: &str) -> bool {
        self.has_digits(digits) || self.all.contains(&Secret::Uuid(digits.to_owned()))
    }

    /// Returns true if `text` is replaced as a number or address, and not as a text.
    pub(super) fn is_number(&self, text: &str) -> bool {
        // The list of spellings has no mixed case.
        if text != text.to_lowercase() && text != text.to_uppercase() {
            return false;
        }
        let is_address = text.parse().is_ok_and(|ip| self.all.contains(&Secret::Address(ip)));
        is_address || self.has_number(&text.to_lowercase().replace([':', '-'], ""))
    }

    /// Drops values that identify nothing, once all are collected. `places` are the parts of all paths.
    pub(super) fn finish(&mut self, places: &BTreeSet<&str>) {
        let public = std::mem::take(&mut self.public);
        self.all.retain(|secret| match secret {
            Secret::Uuid(uuid) => !public.contains(uuid),
            // The serial number of a USB root hub is the name of its controller, a place in the tree.
            Secret::Text(text) => !places.contains(text.as_str()),
            _ => true,
        });
        // A serial number that is a MAC or UUID is replaced as that, so that they stay the same.
        let is_numeric = |text: &str| self.has_number(&text.to_lowercase().replace('-', ""));
        let changed = |secret: &Secret| match secret {
            Secret::Text(text) if is_numeric(text) => Some(Secret::Numeric(text.clone())),
            Secret::Host { name, .. } if self.has_text(name) && !is_numeric(name) => {
                Some(Secret::Host { name: name.clone(), is_text: true })
            }
            Secret::Decimal(digits) if !self.has_digits(digits) => None,
            other => Some(other.clone()),
        };
        self.all = self.all.iter().filter_map(changed).collect();
    }

    /// Marks the GUID at the end of an EFI variable's name as public: it is its definer's, the same on every machine.
    pub(super) fn variable(&mut self, name: &str) {
        let definer = name.len().checked_sub(36).and_then(|at| name.get(at..));
        self.public.extend(definer.and_then(uuid_digits));
    }

    /// Collects a value whose name may reveal its kind.
    pub(super) fn named(&mut self, name: &str, value: &str) {
        let name = name.to_lowercase();
        let has = |words: &str| words.split(' ').any(|word| name.contains(word));
        if name.contains("type_uuid") || name.ends_with("_entry_type") {
            self.public.extend(uuid_digits(value));
        } else if has(TEXT_NAMES) || is_password_name(&name) {
            self.text(value);
        } else if has(HOST_NAMES) {
            self.host(value);
        } else if has(IDENTITY_NAMES) && !name.ends_with("_raw_hex") {
            // Of an accelerator; elsewhere a `unique_id` is longer.
            if name == "unique_id" && value.trim().len() == 16 {
                self.whole.insert(value.trim().to_lowercase());
            }
            self.identity(value, name.contains("uuid"));
        }
        match name.as_str() {
            // `<host>:<port>`, IPv6 in brackets.
            "portal" => {
                let host = value.rsplit_once(':').map_or(value, |(host, _)| host);
                self.host(host.trim_start_matches('[').trim_end_matches(']'));
            }
            // The name of an array of disks: that of the host that made it, and its own.
            "md_name" => self.host(value.split_once(':').map_or("", |(host, _)| host)),
            _ => {}
        }
        if !name.contains("version") && !name.contains("firmware") {
            self.address(value.split('/').next().unwrap_or_default());
        }
        self.in_text(value);
    }

    /// Collects an address, if `text` is one.
    pub(super) fn address(&mut self, text: &str) {
        let Ok(address) = text.parse::<IpAddr>() else { return };
        self.all.insert(Secret::Address(address));
        if address.to_string() != text {
            self.all.insert(Secret::Spelled(text.to_owned(), address));
        }
    }

    pub(super) fn text(&mut self, value: &str) {
        let value = value.trim();
        if value.len() >= 4 && value.is_ascii() && !is_empty(value) {
            self.all.insert(Secret::Text(value.to_owned()));
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
        let names = [name, first].into_iter().filter(|name| name.is_ascii());
        self.all.extend(names.map(|name| Secret::Host { name: name.to_owned(), is_text: false }));
    }

    pub(super) fn digits(&mut self, digits: &str) {
        let n_distinctive = digits.bytes().filter(|digit| !b"0fF".contains(digit)).count();
        if n_distinctive >= 3 && !is_empty(digits) {
            self.all.insert(Secret::Digits(digits.to_lowercase()));
        }
    }

    /// Collects an accelerator's number in decimal digits.
    pub(super) fn decimal(&mut self, number: &str) {
        let Some(number) = number.trim().parse::<u64>().ok().filter(|number| *number != 0) else {
            return;
        };
        let digits = format!("{number:016x}");
        self.digits(&digits);
        self.whole.insert(digits.clone());
        self.all.insert(Secret::Decimal(digits));
    }

    pub(super) fn uuid(&mut self, value: &str) {
        self.all.extend(uuid_digits(value).filter(|digits| !is_empty(digits)).map(Secret::Uuid));
    }

    /// Collects a worldwide identifier in one of its forms, as `naa.5000…`, or a name derived from one.
    fn identity(&mut self, value: &str, is_uuid: bool) {
        let value = value.trim();
        if wwn::multipath_id(value).is_some() {
            return self.made_name(value);
        }
        // LVM's identifiers are random letters and may begin like a prefix.
        let bare = if lvm::is_id(value) { value } else { wwn::bare(value) };
        let bare: String = bare.chars().filter(|c| !":-._".contains(*c)).collect();
        let bare = bare.as_str();
        let is_hex = is_hex(bare);
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
                if lvm::is_id(value) {
                    self.all.insert(Secret::LvmId(bare.to_owned()));
                } else {
                    self.text(value);
                }
            }
            _ => self.made_name(value),
        }
    }

    /// Collects a name that holds a serial number: an NVMe or T10 identifier, an NQN or IQN.
    fn made_name(&mut self, value: &str) {
        if let Some(serial) = wwn::serial_of_wwid(value) {
            self.text(&serial);
        } else if let Some(id) = wwn::multipath_id(value) {
            self.multipath(id);
        } else if let Some(ids) = lvm::ids(value) {
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

    /// Collects a multipath device's identifier: a digit for its kind as `scsi_id` writes it, then the
    /// number; or an NVMe namespace's wwid.
    fn multipath(&mut self, id: &str) {
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

    /// Collects the iSCSI names in any text: `iqn.`, a month, the owner's domain, and the owner's own string (RFC 7143
    /// §4.2.7.3). udev appends the unit number.
    fn iscsi(&mut self, text: &str) {
        for (at, _) in text.match_indices("iqn.") {
            let rest = text.get(at..).unwrap_or_default();
            let is_part = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
            let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            let name = name.split("-lun-").next().unwrap_or_default();
            let name = name.trim_end_matches([':', '.', '-']);
            self.all.extend(split_iscsi(name).map(|_| Secret::Iscsi(name.to_owned())));
        }
    }

    /// Collects from the name of a link in `/dev/disk/by-id`: the bus, then the driver's data about the disk.
    pub(super) fn link(&mut self, id: &str) {
        let Some((bus, rest)) = id.split_once('-') else { return };
        match (bus, rest.split_once('-')) {
            ("md", Some(("name", name))) => self.named("md_name", name),
            ("wwn" | "lvm" | "dm" | "md", _) => {}
            ("nvme", _) if rest.starts_with("eui.") || rest.starts_with("uuid.") => {
                self.named("wwid", rest);
            }
            ("scsi", _) => self.named("wwid", &format!("mpath-{rest}")),
            ("virtio", _) => self.text(rest),
            _ => {
                // Model and serial number; of NVMe then the namespace, of USB then target and unit.
                let rest = rest.strip_suffix("-0:0").unwrap_or(rest);
                let mut parts = rest.rsplit('_');
                let last = parts.next().unwrap_or_default();
                self.text(if last.len() < 4 { parts.next().unwrap_or_default() } else { last });
            }
        }
    }

    /// Collects MACs, WWNs, UUIDs and iSCSI names in any text by their form.
    pub(super) fn in_text(&mut self, text: &str) {
        self.iscsi(text);
        let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '-';
        for token in text.split(|c: char| !is_part(c)).filter(|token| token.len() >= 16) {
            for at in 0..token.len().saturating_sub(35) {
                let starts = at == 0 || !token.as_bytes()[at - 1].is_ascii_hexdigit();
                let found = token.get(at..at + 36).filter(|_| starts);
                self.uuid(found.unwrap_or_default());
            }
            self.in_pairs(token.trim_matches([':', '-']));
        }
        for digits in wwn::naa_in_text(text) {
            self.digits(digits);
        }
    }

    /// Pairs of digits: a MAC has six, a WWN eight, an InfiniBand address twenty.
    fn in_pairs(&mut self, token: &str) {
        for separator in [':', '-'] {
            let pairs: Vec<&str> = token.split(separator).collect();
            let digits = pairs.concat();
            if pairs.iter().any(|pair| pair.len() != 2) || !is_hex(&digits) {
                continue;
            }
            match (separator, pairs.len()) {
                (_, 6) | (':', 8) => self.digits(&digits),
                // The loader's BOOTIF= has the kind of hardware in front.
                ('-', 7) => self.digits(&digits[2..]),
                (':', 20) => self.digits(&digits[24..]),
                _ => {}
            }
        }
    }
}

/// Splits an iSCSI name after `iqn.` and the month.
pub(super) fn split_iscsi(name: &str) -> Option<(&str, &str)> {
    let head = "iqn.2001-04.".len();
    let (start, rest) = name.split_at_checked(head)?;
    let month: Vec<&str> = start.strip_prefix("iqn.")?.strip_suffix('.')?.split('-').collect();
    let is_month = month.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    (is_month && month.len() == 2 && !rest.is_empty()).then_some((start, rest))
}

/// Returns the digits of a UUID with dashes, or of 32 digits; otherwise `None`.
fn uuid_digits(text: &str) -> Option<String> {
    guid::parse_any(text).map(|bytes| hex::hex(&bytes))
}

/// Returns true for a value that was never set and so identifies nothing.
fn is_empty(value: &str) -> bool {
    let uuid = guid::parse_any(value).map(|bytes| guid::uuid(&bytes));
    is_placeholder(value) || is_known_duplicate(uuid.as_deref().unwrap_or(value))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
