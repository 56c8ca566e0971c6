//! Root device hints: which disks fit a description.
//!
//! The keys of Ironic (`openstack ironic root device hints`, with the operators of `oslo.utils`
//! `specs_matcher`) and the plain keys of Metal3 (`BareMetalHost.spec.rootDeviceHints`) are read with one
//! meaning. All hints must match; a disk that lacks the attribute never does; texts are compared without
//! regard to case and to blanks around them; a size is in GiB (2³⁰ bytes). A plain `model` or `vendor` means
//! the whole text, but a part of it where the hints are Metal3's (which have keys in camelCase), as it does there.

mod operator;
mod option;

pub use option::from_option;

use operator::{AT_LEAST, EQUAL, NOT_EQUAL, Relation, relation, split_operator};

use formats::text::{is_key_name, nearest};
use formats::wwn;
use probes::block::Disk;
use serde_json::{Map, Value};

use super::choose::{has_wwn, is_place, is_stable_path, names, places, wwns};
use super::{Say, Term, say};

/// Every hint with the attribute that it is about: Ironic's names, then those that only Metal3 has.
const KEYS: [(&str, Attribute); 17] = [
    ("model", Attribute::Model),
    ("vendor", Attribute::Vendor),
    ("serial", Attribute::Serial),
    ("wwn", Attribute::Wwn),
    ("wwn_with_extension", Attribute::WwnWithExtension),
    ("wwn_vendor_extension", Attribute::WwnVendorExtension),
    ("name", Attribute::Name),
    ("hctl", Attribute::Hctl),
    ("by_path", Attribute::ByPath),
    ("tran", Attribute::Transport),
    ("size", Attribute::Size),
    ("rotational", Attribute::Rotational),
    ("serialNumber", Attribute::Serial),
    ("wwnWithExtension", Attribute::WwnWithExtension),
    ("wwnVendorExtension", Attribute::WwnVendorExtension),
    ("deviceName", Attribute::Name),
    ("minSizeGigabytes", Attribute::Size),
];

/// Maximum number of hints, and of alternatives in one.
const MAX_HINTS: usize = 32;

/// Hints that all must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints(Vec<Hint>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hint {
    attribute: Attribute,
    test: Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Model,
    Vendor,
    Serial,
    Wwn,
    WwnWithExtension,
    WwnVendorExtension,
    Name,
    Hctl,
    ByPath,
    Transport,
    Size,
    Rotational,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// Text in byte order against one of these.
    Text(Vec<(Relation, String)>),
    /// Text that contains all of these.
    Contains(Vec<String>),
    /// Bytes against each of these numbers.
    AllOf(Vec<(Relation, u128)>),
    /// Bytes against one of these numbers.
    AnyOf(Vec<(Relation, u128)>),
    /// Spinning or not.
    Is(bool),
}

impl Hints {
    /// Reads hints.
    ///
    /// # Errors
    /// No hints, an unknown key, an unknown operator, or an invalid value.
    pub fn parse(hints: &Map<String, Value>) -> Result<Self, Say> {
        if hints.is_empty() || hints.len() > MAX_HINTS {
            let found = format!(" has {} keys, expected 1 to 32", hints.len());
            return Err(say![Term::Hints, found]);
        }
        let is_metal3 = hints.keys().any(|key| key.chars().any(|c| c.is_ascii_uppercase()));
        hints
            .iter()
            .map(|(key, value)| hint(key, value, is_metal3))
            .collect::<Result<_, String>>()
            .map(Self)
            .map_err(Say::from)
    }

    /// True if one of them alone names this disk, and none of the others, by its identity or place, not only by what many
    /// disks have in common, or by a kernel name, which another disk may have at the next boot. The volumes of an array
    /// share the first half of a WWN of 32 digits.
    pub fn identify(&self, disk: &Disk, others: &[&Disk]) -> bool {
        self.0.iter().any(|hint| {
            let is_identity = hint.test.exact().is_some_and(|wanted| match hint.attribute {
                Attribute::Serial | Attribute::ByPath => true,
                Attribute::Wwn | Attribute::WwnWithExtension => has_wwn(disk, wanted),
                Attribute::Name => is_stable_path(wanted),
                _ => false,
            });
            is_identity && !others.iter().any(|other| hint.matches(other))
        })
    }

    /// True if one of them is the path of a disk by its place.
    pub fn have_place(&self) -> bool {
        let is_path = |hint: &Hint| matches!(hint.attribute, Attribute::ByPath | Attribute::Name);
        self.0.iter().any(|hint| is_path(hint) && hint.test.exact().is_some_and(is_place))
    }

    /// True if a disk matches.
    pub fn matches(&self, disk: &Disk) -> bool {
        self.0.iter().all(|hint| hint.matches(disk))
    }
}

impl Hint {
    fn matches(&self, disk: &Disk) -> bool {
        match self.attribute {
            Attribute::Size => {
                let known = disk.size_bytes.filter(|size_bytes| *size_bytes > 0);
                known.is_some_and(|found| self.test.matches_number(u128::from(found)))
            }
            Attribute::Rotational => {
                disk.rotational.is_some_and(|found| self.test == Test::Is(found))
            }
            _ => self.test.matches_any(&self.texts(disk)),
        }
    }

    /// Returns the forms of a world-wide name that are compared with a hint.
    fn wwn_texts(&self, name: &str) -> Vec<String> {
        let Some(forms) = wwn::forms(name) else {
            // An NVMe disk without EUI-64 and NGUID: `nvme.`, and then vendor, serial number and model.
            let is_whole = self.attribute != Attribute::WwnVendorExtension;
            return is_whole.then(|| folded(name)).into_iter().collect();
        };
        let mut texts = match self.attribute {
            Attribute::Wwn => forms.all(),
            Attribute::WwnWithExtension => vec![forms.full],
            _ => forms.extension.into_iter().collect(),
        };
        // Part of a name may begin with its prefix, and must not match in the middle of the digits then.
        if matches!(self.test, Test::Contains(_)) {
            texts.extend(texts.clone().iter().map(|digits| format!("0x{digits}")));
            if self.attribute != Attribute::WwnVendorExtension {
                texts.push(folded(name));
            }
        }
        texts
    }

    /// Returns the disk's values of a text attribute, in the form that is compared.
    fn texts(&self, disk: &Disk) -> Vec<String> {
        let one = |text: Option<&String>| text.map(|text| folded(text)).into_iter().collect();
        match self.attribute {
            Attribute::Model => one(disk.model.as_ref()),
            Attribute::Vendor => one(disk.vendor.as_ref()),
            // Ironic's agent knows the one of udev, `ID_SERIAL_SHORT`, which may be another one than the disk's own.
            Attribute::Serial => {
                disk.serial.iter().chain(&disk.other_serials).map(|s| folded(s)).collect()
            }
            Attribute::Hctl => one(disk.hctl.as_ref()),
            Attribute::ByPath => places(disk).map(|text| folded(text)).collect(),
            Attribute::Transport => one(disk.transport.as_ref()),
            Attribute::Name => names(disk).map(|text| folded(text)).collect(),
            Attribute::Wwn | Attribute::WwnWithExtension | Attribute::WwnVendorExtension => {
                wwns(disk).flat_map(|name| self.wwn_texts(name)).collect()
            }
            Attribute::Size | Attribute::Rotational => Vec::new(),
        }
    }
}

impl Test {
    /// The text that passes, if only one does.
    fn exact(&self) -> Option<&str> {
        let Self::Text(wanted) = self else { return None };
        match &wanted[..] {
            [(relation, only)] if *relation == EQUAL => Some(only),
            _ => None,
        }
    }

    /// True if one of the texts matches; "not equal" must be true for all of them.
    fn matches_any(&self, texts: &[String]) -> bool {
        if texts.is_empty() {
            return false;
        }
        let is_negation = |(relation, _): &(Relation, String)| *relation == NOT_EQUAL;
        let is_negative = matches!(self, Self::Text(wanted) if wanted.iter().any(is_negation));
        let mut matches = texts.iter().map(|text| self.matches_text(text));
        if is_negative { matches.all(|is_met| is_met) } else { matches.any(|is_met| is_met) }
    }

    fn matches_text(&self, text: &str) -> bool {
        match self {
            Self::Text(wanted) => {
                wanted.iter().any(|(relation, wanted)| relation.contains(&text.cmp(wanted)))
            }
            Self::Contains(parts) => parts.iter().all(|part| text.contains(part.as_str())),
            _ => false,
        }
    }

    fn matches_number(&self, found: u128) -> bool {
        let is_met = |(relation, wanted): &(Relation, u128)| relation.contains(&found.cmp(wanted));
        match self {
            Self::AllOf(wanted) => wanted.iter().all(is_met),
            Self::AnyOf(wanted) => wanted.iter().any(is_met),
            _ => false,
        }
    }
}

fn attribute(key: &str) -> Option<Attribute> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, attribute)| *attribute)
}

/// Suggests a replacement for an unknown hint.
fn instead(key: &str) -> String {
    let known = KEYS.map(|(known, _)| known);
    match nearest(key, known) {
        Some(known) => format!("did you mean {known:?}?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}

/// Reads one hint.
fn hint(key: &str, value: &Value, is_metal3: bool) -> Result<Hint, String> {
    let attribute = attribute(key).ok_or_else(|| {
        // Another text may be a secret in the wrong place, as may every value.
        let shown = if is_key_name(key) { key } else { "…" };
        format!("the hint {shown:?} is unknown, {}", instead(key))
    })?;
    let given = match value {
        // Operators and texts have no case in Ironic.
        Value::String(given) => folded(given),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => {
            return Err(format!(
                "the hint {key} holds another type, expected a text, number or boolean"
            ));
        }
    };
    let bad = |expected: &str| format!("the hint {key} has another form, expected {expected}");
    if given.is_empty() || given.len() > 1024 {
        return Err(bad("a text of 1 to 1024 bytes"));
    }
    let test = match attribute {
        Attribute::Rotational => {
            parse_bool(&given).map(Test::Is).ok_or_else(|| bad("true or false"))?
        }
        Attribute::Size if key == "minSizeGigabytes" => gib(&given)
            .map(|bytes| Test::AllOf(vec![(AT_LEAST, bytes)]))
            .ok_or_else(|| bad("a whole number of GiB"))?,
        Attribute::Size => number_test(&given)
            .ok_or_else(|| bad("a whole number of GiB, with an operator of numbers or none"))?,
        _ => {
            let is_part = is_metal3 && matches!(attribute, Attribute::Model | Attribute::Vendor);
            text_test(&given, is_part)
                .ok_or_else(|| bad("a string, optionally preceded by a string operator"))?
        }
    };
    Ok(Hint { attribute, test: with_wwn_forms(attribute, test) })
}

/// Brings the wanted WWN to the form in which disks' WWNs are compared.
fn with_wwn_forms(attribute: Attribute, mut test: Test) -> Test {
    use Attribute::{Wwn, WwnVendorExtension, WwnWithExtension};
    if let (Wwn | WwnWithExtension | WwnVendorExtension, Test::Text(wanted)) =
        (attribute, &mut test)
    {
        for (_, wanted) in wanted {
            if let Some(forms) = wwn::forms(wanted) {
                *wanted = forms.full;
            }
        }
    }
    test
}

/// A test of a text: `s== x`, `<in> x`, `<or> a <or> b`, `<all-in> a b`, or a plain text.
fn text_test(text: &str, plain_is_part: bool) -> Option<Test> {
    let (operator, rest) = split_operator(text);
    let wanted = Some(folded(rest)).filter(|wanted| !wanted.is_empty());
    match operator {
        "" if plain_is_part => Some(Test::Contains(vec![folded(text)])),
        "" => Some(Test::Text(vec![(EQUAL, folded(text))])),
        "<or>" => Some(Test::Text(alternatives(text)?.map(|text| (EQUAL, text)).collect())),
        "<in>" => wanted.map(|part| Test::Contains(vec![part])),
        "<all-in>" => wanted
            .map(|parts| Test::Contains(parts.split_whitespace().map(str::to_owned).collect())),
        _ => Some(Test::Text(vec![(relation(operator.strip_prefix('s')?)?, wanted?)])),
    }
}

/// A test of a size in GiB: `>= 10`, `<or> 10 <or> 20`, `<range-in> [ 10 20 ]`, or a plain number.
fn number_test(text: &str) -> Option<Test> {
    let (operator, rest) = split_operator(text);
    match operator {
        "<or>" => {
            let each = alternatives(text)?.map(|text| Some((EQUAL, gib(&text)?)));
            each.collect::<Option<_>>().map(Test::AnyOf)
        }
        "<range-in>" => range(rest),
        "" => Some(Test::AllOf(vec![(EQUAL, gib(text)?)])),
        // A single `=` means "at least", as it always has in Ironic.
        "=" => Some(Test::AllOf(vec![(AT_LEAST, gib(rest)?)])),
        _ => Some(Test::AllOf(vec![(relation(operator)?, gib(rest)?)])),
    }
}

fn range(text: &str) -> Option<Test> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [open, low, high, close] = words[..] else { return None };
    let above = [("[", ">="), ("(", ">")].into_iter().find(|(known, _)| *known == open)?.1;
    let below = [("]", "<="), (")", "<")].into_iter().find(|(known, _)| *known == close)?.1;
    Some(Test::AllOf(vec![(relation(above)?, gib(low)?), (relation(below)?, gib(high)?)]))
}

/// The texts between `<or>` and `<or>`.
fn alternatives(text: &str) -> Option<impl Iterator<Item = String>> {
    let texts: Vec<String> = text.split("<or>").skip(1).map(folded).collect();
    (!texts.is_empty() && texts.len() <= MAX_HINTS && texts.iter().all(|text| !text.is_empty()))
        .then(|| texts.into_iter())
}

fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// A whole, positive number of GiB in bytes.
fn gib(text: &str) -> Option<u128> {
    let number: u64 = text.trim().parse().ok()?;
    (number > 0).then(|| u128::from(number) << 30)
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
