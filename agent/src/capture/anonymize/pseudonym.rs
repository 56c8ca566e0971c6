//! One unique replacement for each secret: always the same, and with the same shape.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use formats::lvm::Volume;
use sha2::{Digest as _, Sha256};

use super::ipv4::Mapping;
use super::secret::{Secret, Secrets, split_iscsi};

/// Draws for one replacement; more are needed only if nearly all values with its shape are taken.
const TRIES: u32 = 1000;

/// The replacements so far.
#[derive(Debug)]
pub(super) struct Pseudonyms {
    key: [u8; 32],
    known: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    /// Digits that do not begin with a maker's number.
    whole: BTreeSet<String>,
    ipv4: Mapping,
}

impl Pseudonyms {
    /// A generator whose replacements are never one of the `secrets`.
    pub(super) fn new(key: [u8; 32], secrets: &Secrets) -> Pseudonyms {
        let value = |secret: &Secret| match secret {
            Secret::Text(value) | Secret::Digits(value) | Secret::Uuid(value) => {
                Some(value.clone())
            }
            Secret::Host { name, .. } => Some(name.clone()),
            _ => None,
        };
        let taken = secrets.all.iter().filter_map(value).collect();
        let ipv4 = Mapping::new(&secrets.networks);
        let whole = secrets.whole.clone();
        Pseudonyms { key, known: BTreeMap::new(), taken, whole, ipv4 }
    }

    /// Returns a secret's replacement, which has the same kind.
    pub(super) fn of(&mut self, secret: &Secret, secrets: &Secrets) -> Secret {
        match secret {
            Secret::Text(text) => Secret::Text(self.text(text)),
            Secret::Host { name, is_text } => {
                Secret::Host { name: self.text(name), is_text: *is_text }
            }
            Secret::LvmId(id) => Secret::LvmId(self.text(id)),
            Secret::Volume(Volume { group, name, layer }) => Secret::Volume(Volume {
                group: self.text(group),
                name: self.text(name),
                layer: layer.clone(),
            }),
            Secret::Iscsi(name) => Secret::Iscsi(self.iscsi(name)),
            Secret::Digits(digits) => Secret::Digits(self.digits(digits)),
            Secret::Uuid(digits) => Secret::Uuid(self.uuid(digits)),
            Secret::Numeric(text) => {
                let digits = text.to_lowercase().replace('-', "");
                let is_uuid = secrets.all.contains(&Secret::Uuid(digits.clone()));
                let put = if is_uuid { self.uuid(&digits) } else { self.digits(&digits) };
                Secret::Numeric(in_style_of(text, &put))
            }
            Secret::Address(ip) => Secret::Address(self.address(*ip)),
            Secret::Decimal(digits) => Secret::Decimal(self.digits(digits)),
            Secret::Spelled(_, ip) => {
                let put = self.address(*ip);
                Secret::Spelled(put.to_string(), put)
            }
        }
    }

    /// Replaces each letter and digit in a text with another one.
    pub(super) fn text(&mut self, text: &str) -> String {
        let is_hex =
            text.bytes().all(|byte| !byte.is_ascii_alphanumeric() || byte.is_ascii_hexdigit());
        let n_letters = if is_hex { 6 } else { 26 };
        self.replacement(text, |_, byte, random| match byte {
            b'0'..=b'9' => b'0' + random % 10,
            b'a'..=b'z' => b'a' + random % n_letters,
            b'A'..=b'Z' => b'A' + random % n_letters,
            other => other,
        })
    }

    /// Replaces an iSCSI name: the month stays, and each other label and word gets its usual replacement.
    pub(super) fn iscsi(&mut self, name: &str) -> String {
        let Some((start, rest)) = split_iscsi(name) else { return self.text(name) };
        let mut put = start.to_owned();
        for piece in rest.split_inclusive(['.', ':']) {
            let word = piece.trim_end_matches(['.', ':']);
            put.push_str(&self.text(word));
            put.push_str(&piece[word.len()..]);
        }
        put
    }

    /// Replaces hexadecimal digits; those that name the vendor stay.
    pub(super) fn digits(&mut self, digits: &str) -> String {
        let first = digits.bytes().next().unwrap_or_default();
        let is_whole = self.whole.contains(digits);
        let stays = |at: usize| match (digits.len(), first) {
            _ if is_whole => false,
            // T10 SPC-5 §7.7.6.6: the format, then the maker's number (NAA 1, 2, 5 and 6).
            (16, b'1') => at < 10,
            (16, b'2') => at == 0 || (4..10).contains(&at),
            (16, b'5') | (32, b'6') => at < 7,
            // A MAC or EUI-64 begins with the maker's number.
            (12 | 16, _) => at < 6,
            // NVMe 2.0, NGUID: the maker's number follows eight bytes.
            (32, _) => (16..22).contains(&at),
            _ => false,
        };
        self.replacement(digits, |at, byte, random| if stays(at) { byte } else { digit(random) })
    }

    /// Replaces bytes with equally many others.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let name = format!("bytes {bytes:?}");
        stream(&self.key, &name, 0).take(bytes.len()).collect()
    }

    /// Replaces the 32 digits of a UUID; version and variant stay.
    pub(super) fn uuid(&mut self, digits: &str) -> String {
        self.replacement(digits, |at, byte, random| match at {
            12 | 16 => byte,
            _ => digit(random),
        })
    }

    /// Returns a reserved or documentation address; one with the same meaning everywhere stays.
    pub(super) fn address(&mut self, address: IpAddr) -> IpAddr {
        match address {
            address if is_universal(address) => address,
            IpAddr::V4(address) => {
                let random = |name: &str| stream(&self.key, &format!("ipv4 {name}"), 0).next();
                IpAddr::V4(self.ipv4.replace(address, &|name| random(name).unwrap_or_default()))
            }
            IpAddr::V6(address) => IpAddr::V6(self.ipv6(address)),
        }
    }

    /// Replaces a 64-bit prefix with one below `2001:db8::/32` (RFC 3849); a link-local one stays. An
    /// interface identifier derived from a MAC is derived from that MAC's replacement.
    fn ipv6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        let text = format!("{:032x}", address.to_bits());
        let (prefix, host) = text.split_at(16);
        let prefix = if address.is_unicast_link_local() {
            prefix.to_owned()
        } else {
            format!("20010db8{}", self.low("ipv6 prefix", prefix, 8))
        };
        let is_small = host.starts_with("00000000000000");
        let mac = host.get(..6).zip(host.get(10..)).filter(|_| host.get(6..10) == Some("fffe"));
        let host = match mac {
            _ if is_small => host.to_owned(),
            Some((maker, own)) => {
                let mac = self.digits(&(flip(maker) + own));
                format!("{}fffe{}", flip(&mac[..6]), &mac[6..])
            }
            None => self.low("ipv6 host", host, 16),
        };
        Ipv6Addr::from_bits(u128::from_str_radix(&(prefix + &host), 16).unwrap_or_default())
    }

    /// Replaces `value` with `n_digits` hexadecimal digits that no other value of this kind gets.
    fn low(&mut self, kind: &str, value: &str, n_digits: usize) -> String {
        let kind = format!("{kind} ");
        let digits = |random: &mut dyn Iterator<Item = u8>| {
            random.take(n_digits).map(|byte| char::from(digit(byte))).collect()
        };
        self.drawn(&kind, value, &digits).unwrap_or_else(|| "0".repeat(n_digits))
    }

    /// Applies `put(place, byte, random byte)` to each byte of `value`.
    fn replacement(&mut self, value: &str, put: impl Fn(usize, u8, u8) -> u8) -> String {
        let text = |random: &mut dyn Iterator<Item = u8>| {
            let bytes = value.bytes().enumerate().zip(random);
            let bytes: Vec<u8> = bytes.map(|((at, byte), random)| put(at, byte, random)).collect();
            String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
        };
        self.drawn("", value, &text).unwrap_or_else(|| value.to_owned())
    }

    /// Draws a value with `make` that no other value of this kind has; `None` if nearly all are taken.
    fn drawn(
        &mut self,
        kind: &str,
        value: &str,
        make: &dyn Fn(&mut dyn Iterator<Item = u8>) -> String,
    ) -> Option<String> {
        let name = [kind, value].concat();
        if let Some(known) = self.known.get(&name) {
            return Some(known.clone());
        }
        let mut draws = (0..TRIES).map(|round| make(&mut stream(&self.key, &name, round)));
        let found = draws.find(|draw| !self.taken.contains(&[kind, draw].concat()))?;
        self.taken.insert([kind, &found].concat());
        self.known.insert(name, found.clone());
        Some(found)
    }
}

/// Bytes that look random to anyone without the key.
fn stream(key: &[u8; 32], value: &str, round: u32) -> impl Iterator<Item = u8> + use<> {
    let start = Sha256::new()
        .chain_update(key)
        .chain_update(round.to_le_bytes())
        .chain_update(value.as_bytes());
    (0_u32..).flat_map(move |block| start.clone().chain_update(block.to_le_bytes()).finalize())
}

/// Returns true for an address that says nothing about the network: loopback, link-local IPv4, multicast, none.
fn is_universal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_multicast()
                || v4.is_link_local()
                || matches!(v4.octets(), [0 | 255, ..])
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unspecified()
                || v6.to_bits() == 0xfe80 << 112
        }
    }
}

/// Returns the digits of `to` with the letter case and separators of `like`.
fn in_style_of(like: &str, to: &str) -> String {
    // A digit may become a letter, in the case of the letters that are there.
    let is_upper = like.bytes().any(|byte| byte.is_ascii_uppercase())
        && !like.bytes().any(|byte| byte.is_ascii_lowercase());
    let mut digits = to.chars();
    let styled = like.chars().map(|c| match c {
        _ if !c.is_ascii_hexdigit() => c,
        _ if c.is_ascii_uppercase() || is_upper => digits.next().unwrap_or(c).to_ascii_uppercase(),
        _ => digits.next().unwrap_or(c),
    });
    styled.collect()
}

fn digit(random: u8) -> u8 {
    b"0123456789abcdef".get(usize::from(random % 16)).copied().unwrap_or(b'0')
}

/// Returns a MAC's vendor number with the bit inverted that an IPv6 identifier inverts.
fn flip(maker: &str) -> String {
    let number = u32::from_str_radix(maker, 16).unwrap_or_default() ^ 0x02_0000;
    format!("{number:06x}")
}
