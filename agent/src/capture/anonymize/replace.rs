//! Replaces many values at once; at each position the longest match wins.

use std::collections::HashMap;

use super::collect::Secrets;
use super::fields;
use super::forms;
use super::pseudonym::Pseudonyms;

/// All values have at least this many bytes; shorter ones occur everywhere by chance.
const KEY_BYTES: usize = 4;
/// A shorter serial number within other letters of SMBIOS could be there by chance.
const MIN_GLUED: usize = 5;

/// What may be next to a value for it to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Anything.
    Any,
    /// No letter and no digit.
    Word,
    /// As a word, in a file that holds identities: for values that could mean anything.
    Field,
    /// Nothing that would make the address or number go on.
    Address,
}

/// Where a value is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// In names and in all files.
    Everywhere,
    /// In names and in files of text, which may become longer.
    Text,
    /// In the kernel's answers to questions.
    Kernel,
    /// In the answers of the management controller.
    Bmc,
    /// In what was read of disks, and in text.
    Disks,
    /// In contents, and in names that are made of identities: for the names of hosts.
    Contents,
    /// In the table of SMBIOS, where vendors glue a serial number to other letters.
    Smbios,
}

/// A value and its replacement.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) edge: Edge,
    pub(super) scope: Scope,
}

impl Pair {
    pub(super) fn new(from: Vec<u8>, to: Vec<u8>, edge: Edge) -> Pair {
        Pair { from, to, edge, scope: Scope::Everywhere }
    }
}

/// What a file is, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    kind: Kind,
    /// Whether it contains identities rather than words and sizes.
    is_identity: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// Of udev's database, or a lease: words and numbers of every kind.
    Udev,
    Binary,
    Kernel,
    Bmc,
    Disk,
    Smbios,
    /// A part of a path that the kernel named.
    Name,
}

impl Place {
    /// A message, or a part of a path that udev made of identities.
    const MESSAGE: Place = Place { kind: Kind::Text, is_identity: false };
    const NAME: Place = Place { kind: Kind::Name, is_identity: false };

    pub(super) fn of(path: &str, content: &[u8]) -> Place {
        const IDENTITIES: [&str; 14] = [
            "serial",
            "uuid",
            "wwid",
            "wwn",
            "asset_tag",
            "hostname",
            "machine-id",
            "guid",
            "nqn",
            "DMI",
            "vpd_pg",
            "unique_id",
            "hosts",
            "resolv.conf",
        ];
        let name = path.rsplit('/').next().unwrap_or_default();
        let kind = match path.strip_prefix("kernel/") {
            Some(question) if question.starts_with("disk/") => Kind::Disk,
            Some(question) if question.starts_with("ipmi/") && question.contains("/lan/") => {
                Kind::Bmc
            }
            // Lines of the kernel log, and of that of a crash.
            Some("kmsg" | "pstore") => Kind::Text,
            Some(_) => Kind::Kernel,
            None if path == "sys/firmware/dmi/tables/DMI" => Kind::Smbios,
            None if content.contains(&0) || std::str::from_utf8(content).is_err() => Kind::Binary,
            None if path.starts_with("run/udev/") || fields::is_lease(path) => Kind::Udev,
            None => Kind::Text,
        };
        let is_kernel = matches!(kind, Kind::Kernel | Kind::Bmc | Kind::Disk);
        let is_identity =
            is_kernel || kind == Kind::Udev || IDENTITIES.iter().any(|word| name.contains(word));
        Place { kind, is_identity }
    }
}

/// All values and their replacements.
#[derive(Debug)]
pub(super) struct Table {
    pairs: Vec<Pair>,
    /// Indices into `pairs` by the first bytes of a value, the longest first.
    index: HashMap<[u8; KEY_BYTES], Vec<usize>>,
    /// Which first two bytes there are: this alone rules out nearly every position.
    first: Vec<bool>,
}

impl Table {
    pub(super) fn new(secrets: &Secrets, names: &mut Pseudonyms) -> Table {
        let mut pairs = Vec::new();
        for (texts, is_weak) in
            [(&secrets.texts, weak_text as fn(&str) -> bool), (&secrets.hosts, weak_host)]
        {
            for text in texts {
                let edge = match text.len() {
                    _ if is_weak(text) => Edge::Field,
                    ..8 => Edge::Word,
                    _ => Edge::Any,
                };
                let put = names.text(text);
                let is_host = secrets.hosts.contains(text) && !secrets.texts.contains(text);
                if is_host && is_kernel_name(text) {
                    continue;
                }
                let of_text = forms::text(text, &put, edge).into_iter();
                let is_word = is_host || edge == Edge::Word;
                let scope = if is_word { Scope::Contents } else { Scope::Everywhere };
                pairs.extend(of_text.map(|pair| Pair { scope, ..pair }));
                if !is_host && edge != Edge::Any && text.len() >= MIN_GLUED {
                    let glued = Pair::new(text.as_bytes().into(), put.into_bytes(), Edge::Any);
                    pairs.push(Pair { scope: Scope::Smbios, ..glued });
                }
                if edge == Edge::Field && secrets.hosts.contains(text) {
                    pairs.push(forms::remote(text, &names.text(text)));
                }
            }
        }
        for id in &secrets.lvm_ids {
            let grouped = formats::lvm::grouped(id);
            pairs.extend(forms::text(&grouped, &super::lvm::id(&grouped, names), Edge::Any));
        }
        for volume in &secrets.volumes {
            pairs.extend(super::lvm::pairs(volume, names));
        }
        for name in &secrets.iscsi {
            pairs.extend(forms::text(name, &names.iscsi(name), Edge::Any));
        }
        for digits in &secrets.digits {
            pairs.extend(forms::digits(digits, &names.digits(digits)));
        }
        for uuid in &secrets.uuids {
            pairs.extend(forms::uuid(uuid, &names.uuid(uuid)));
        }
        for text in &secrets.numeric_texts {
            let digits = text.to_lowercase().replace('-', "");
            let is_uuid = secrets.uuids.contains(&digits);
            let put = if is_uuid { names.uuid(&digits) } else { names.digits(&digits) };
            pairs.extend(forms::text(text, &forms::in_style_of(text, &put), Edge::Any));
        }
        for address in &secrets.addresses {
            pairs.extend(forms::address(*address, names.address(*address)));
        }
        for digits in secrets.decimals.iter().filter(|digits| secrets.digits.contains(*digits)) {
            pairs.extend(forms::decimal(digits, &names.digits(digits)));
        }
        for (spelling, address) in &secrets.spellings {
            pairs.push(forms::spelling(spelling, names.address(*address)));
        }
        Table::of(pairs)
    }

    fn of(mut pairs: Vec<Pair>) -> Table {
        pairs.retain(|pair| pair.from.len() >= KEY_BYTES || pair.edge == Edge::Field);
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.from.len()));
        let mut index: HashMap<[u8; KEY_BYTES], Vec<usize>> = HashMap::new();
        let mut first = vec![false; 1 << 16];
        for (at, pair) in pairs.iter().enumerate() {
            let Some(key) = pair.from.first_chunk() else { continue };
            index.entry(*key).or_default().push(at);
            if let Some(flag) = first.get_mut(two(*key)) {
                *flag = true;
            }
        }
        Table { pairs, index, first }
    }

    /// A message or line with its secrets replaced.
    pub(super) fn in_text(&self, text: &str) -> String {
        String::from_utf8(self.apply(Place::MESSAGE, text.as_bytes()))
            .unwrap_or_else(|_| text.to_owned())
    }

    /// A path with its secrets replaced. The name of a host, or a serial number that could be a word, is
    /// replaced only in the parts that udev makes of identities: `node0` is a name of the kernel's, too.
    pub(super) fn in_path(&self, path: &str) -> String {
        let part = |part: &str| {
            let place = if is_made_name(part) { Place::MESSAGE } else { Place::NAME };
            String::from_utf8(self.apply(place, part.as_bytes()))
                .unwrap_or_else(|_| part.to_owned())
        };
        path.split('/').map(part).collect::<Vec<String>>().join("/")
    }

    /// A content with its secrets replaced.
    pub(super) fn apply(&self, place: Place, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(content.len());
        let mut at = 0;
        while let Some(byte) = content.get(at) {
            if let Some(pair) = self.pair_at(place, content, at) {
                out.extend_from_slice(&pair.to);
                at += pair.from.len();
            } else {
                out.push(*byte);
                at += 1;
            }
        }
        out
    }

    fn pair_at(&self, place: Place, content: &[u8], at: usize) -> Option<&Pair> {
        let key = content.get(at..)?.first_chunk::<KEY_BYTES>()?;
        if !self.first.get(two(*key)).is_some_and(|is_known| *is_known) {
            return None;
        }
        let candidates = self.index.get(key)?.iter().filter_map(|at| self.pairs.get(*at));
        candidates.into_iter().find(|pair| pair.is_at(place, content, at))
    }
}

impl Pair {
    fn is_at(&self, place: Place, content: &[u8], at: usize) -> bool {
        let end = at + self.from.len();
        if content.get(at..end) != Some(self.from.as_slice()) || !self.is_for(place) {
            return false;
        }
        let before = at.checked_sub(1).and_then(|at| content.get(at)).copied();
        let (next, second) = (content.get(end).copied(), content.get(end + 1).copied());
        let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        match self.edge {
            Edge::Any => true,
            Edge::Word => !is_word(before) && !is_word(next),
            Edge::Field => {
                let is_number = self.from.iter().all(u8::is_ascii_digit);
                let named = || {
                    let line = content.get(..at).unwrap_or_default();
                    [&b"_"[..], b"SERIAL=", b"SHORT="].iter().any(|name| line.ends_with(name))
                };
                place.is_identity
                    && !is_word(before)
                    && !is_word(next)
                    && (place.kind != Kind::Udev || !is_number || named())
            }
            Edge::Address => {
                let goes_on = |byte: Option<u8>| is_word(byte) || byte == Some(b':');
                let is_dotted = next == Some(b'.') && second.is_some_and(|b| b.is_ascii_digit());
                let is_port = next == Some(b':') && !self.from.contains(&b':');
                !goes_on(before.filter(|byte| *byte != b':' || self.from.contains(&b':')))
                    && before != Some(b'.')
                    && (!goes_on(next) || is_port)
                    && !is_dotted
            }
        }
    }

    fn is_for(&self, place: Place) -> bool {
        match self.scope {
            Scope::Everywhere => true,
            Scope::Text => matches!(place.kind, Kind::Text | Kind::Udev | Kind::Name),
            Scope::Contents => place.kind != Kind::Name,
            Scope::Smbios => place.kind == Kind::Smbios,
            Scope::Kernel => matches!(place.kind, Kind::Kernel | Kind::Bmc | Kind::Disk),
            Scope::Bmc => place.kind == Kind::Bmc,
            Scope::Disks => place.kind == Kind::Disk,
        }
    }
}

/// Whether a serial number could as well be a word or a size.
fn weak_text(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_number = n_digits == text.len() && n_digits < 10;
    n_digits == 0 || is_number || text.len() < KEY_BYTES
}

/// Whether udev made the part of a path of a disk's or port's identity.
fn is_made_name(part: &str) -> bool {
    const STARTS: [&str; 15] = [
        "ata-",
        "scsi-",
        "nvme-",
        "usb-",
        "wwn-",
        "md-",
        "mmc-",
        "virtio-",
        "ip-",
        "pci-",
        "dm-name-",
        "dm-uuid-",
        "lvm-",
        "ieee1394-",
        "mpath",
    ];
    STARTS.iter().any(|start| part.starts_with(start))
}

/// Whether the kernel gives this name too, so that it says nothing outside of a field for hosts: letters
/// that name a kind of device, then numbers.
fn is_kernel_name(name: &str) -> bool {
    const KINDS: [&str; 40] = [
        "node", "cpu", "eth", "nvme", "md", "dm-", "loop", "ram", "sr", "tty", "ttyS", "host",
        "target", "memory", "card", "bond", "br", "vlan", "wlan", "usb", "hwmon", "mmcblk", "rtc",
        "tpm", "ib", "mlx4_", "mlx5_", "eno", "ens", "port", "slot", "state", "zram", "nbd", "mtd",
        "index", "policy", "session", "rport", "zone",
    ];
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_disk = ["sd", "hd", "vd", "xvd"].iter().any(|start| {
        let letters = name
            .strip_prefix(start)
            .map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_digit()));
        letters
            .is_some_and(|l| (1..3).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_lowercase()))
    });
    let is_numbered = KINDS.iter().any(|kind| {
        let number = name.strip_prefix(kind).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    // Of NVMe: nvme0n1, nvme0c1n1p2.
    let is_nvme = name.starts_with("nvme")
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b"cnp".contains(&byte));
    is_disk || is_numbered || (is_nvme && !rest.is_empty())
}

/// Whether the name of a host could as well be a word.
fn weak_host(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.len() < KEY_BYTES || (is_plain && name.len() < 12)
}

fn two(key: [u8; KEY_BYTES]) -> usize {
    usize::from(key[0]) << 8 | usize::from(key[1])
}
