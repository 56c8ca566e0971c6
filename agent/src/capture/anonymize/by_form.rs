//! Values recognised by their form in any file: MACs, WWNs, UUIDs, addresses, names of iSCSI.

use std::net::{IpAddr, Ipv4Addr};

use formats::wwn;

use super::collect::{Secrets, split_iscsi, uuid_digits};

impl Secrets {
    /// iSCSI's names in any text: `iqn.`, a month, whose domain it is, and what that one calls it (RFC 7143
    /// §4.2.7.3). udev appends the number of the unit.
    pub(super) fn iscsi(&mut self, text: &str) {
        for (at, _) in text.match_indices("iqn.") {
            let rest = text.get(at..).unwrap_or_default();
            let is_part = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
            let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            let name = name.split("-lun-").next().unwrap_or_default();
            let name = name.trim_end_matches([':', '.', '-']);
            self.iscsi.extend(split_iscsi(name).map(|_| name.to_owned()));
        }
    }

    /// The name of a link in `/dev/disk/by-id`: the bus, then what its driver knows of the disk.
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

    /// MACs, WWNs and UUIDs in any text, known by their form.
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
            let is_pairs = pairs.iter().all(|pair| pair.len() == 2 && uuid_digits(pair).is_none());
            let digits = pairs.concat();
            if !is_pairs || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
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

    pub(super) fn in_addresses(&mut self, text: &str) {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
        for token in text.split(|c: char| !is_part(c)) {
            self.address(token.trim_end_matches([':', '.']));
            let parts = token.split(':').filter_map(|part| part.parse::<Ipv4Addr>().ok());
            self.addresses.extend(parts.map(IpAddr::V4));
        }
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if matches!(words.next(), Some("search" | "domain")) {
                words.for_each(|word| self.host(word));
            }
        }
    }
}
