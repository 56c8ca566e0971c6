//! The trace that an install leaves for the next live boot: in an UEFI variable before the first write, and after the proof there and
//! in a file on the disk's EFI system partition. Kernel arguments are left alone, because sealed images take none.
//!
//! Anyone may have written a trace. It therefore allows nothing but to go on with a disk that contains no more than remains of a
//! write, and to start a disk instead of writing it again.

mod file;
mod variable;

use formats::digest;
use probes::block::Disk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::outcome::{DiskIdentity, DiskState};
use super::{System, identity_of};
use crate::ask::ask_within;
use crate::clean;

pub(super) use self::file::leave;
pub(super) use self::variable::remember;

/// The largest trace that is read or written, in bytes.
const MAX_BYTES: usize = 4096;
/// The longest text in one, in characters.
const MAX_CHARS: usize = 160;
/// Rounds of one request after which it is not tried again.
pub const MAX_ROUNDS: u32 = 3;

/// A request, by which an install is known again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its id, e.g. the `request_id` of an instruction.
    pub id: String,
    /// Digest of the node's id and of what it asks for: `sha256-` and 64 hexadecimal digits.
    pub digest: String,
}

impl Request {
    /// A request to this node. Machines of one rack may share the id and all that it asks for, and exchange their disks.
    pub fn of(id: &str, node_id: &str, asked: &[u8]) -> Self {
        // Such a name lasts until the next boot.
        let node_id = if node_id.starts_with("boot-") { "" } else { node_id };
        let digest = digest::sha256(&[node_id.as_bytes(), b"\n", asked].concat());
        Self { id: id.to_owned(), digest }
    }
}

/// The trace of an install.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Id of the request.
    pub request: String,
    /// Digest of the node's id and of what it asked for: `sha256-` and 64 hexadecimal digits.
    pub digest: String,
    /// The state of the disk: `half_written` from before the first write on.
    pub stage: DiskState,
    /// When that was, by the node's clock: RFC 3339, UTC.
    pub at: String,
    /// True if the whole image was compared with the disk.
    pub proved: bool,
    /// The disk.
    pub disk: DiskIdentity,
    /// Number of rounds of the request that led to no system.
    #[serde(default)]
    pub rounds: u32,
    /// Why they failed, the last one at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Trace {
    /// True if it is of this request.
    pub(super) fn is_of(&self, request: &Request) -> bool {
        self.request == request.id && self.digest == request.digest
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let trace: Self = serde_json::from_slice(bytes.get(..MAX_BYTES).unwrap_or(bytes)).ok()?;
        let short = |text: &str| clean::text(text, MAX_CHARS);
        let failures = trace.failures.iter().rev().take(MAX_ROUNDS as usize).rev();
        Some(Self {
            at: short(&trace.at),
            failures: failures.map(|why| short(why)).collect(),
            ..trace
        })
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        if bytes.len() > MAX_BYTES { Err("it is too long".into()) } else { Ok(bytes) }
    }
}

/// True if an identity is that of the disk by serial number or WWN, and nothing contradicts it. A disk without both is not known
/// again.
pub(super) fn is_one(identity: &DiskIdentity, disk: &Disk) -> bool {
    let found = identity_of(disk);
    let agree = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    let has_id = agree(&identity.serial, &found.serial) || agree(&identity.wwn, &found.wwn);
    let with_device = DiskIdentity { device: found.device.clone(), ..identity.clone() };
    has_id && with_device == found
}

/// The traces of earlier installs on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Previous {
    /// That of the last install that began, if the firmware keeps variables.
    pub last: Option<Trace>,
    /// Those on disks, with the kernel's name of each.
    pub on_disks: Vec<(String, Trace)>,
}

impl Previous {
    /// Reads the variable, and the EFI system partition of each of these disks.
    pub fn read(system: &System, disks: &[Disk]) -> Self {
        let efivars = system.is_uefi().then(|| system.efivars());
        let is_own = |disk: &&Disk| !disk.is_live_medium && disk.unit().is_none();
        let disks: Vec<Disk> = disks.iter().filter(is_own).cloned().collect();
        let recall = move || variable::recall(&efivars?);
        let last = ask_within("trace", file::LIMIT, system.stop(), recall);
        // A disk that does not respond must not hide the trace of another one.
        let of_disk = |disk: Disk| {
            let (name, within) = (disk.name.clone(), system.clone());
            let read = move || file::of(&within, &disk);
            let found = ask_within("trace", file::LIMIT, system.stop(), read);
            Some((name, found.ok()??))
        };
        let on_disks = disks.into_iter().filter_map(of_disk).collect();
        Self { last: last.unwrap_or_default(), on_disks }
    }

    /// The trace that says most about the last install: the variable's, otherwise the newest on a disk.
    pub fn newest(&self) -> Option<&Trace> {
        let on_disks = self.on_disks.iter().map(|(_, trace)| trace);
        on_disks.chain(&self.last).max_by(|a, b| a.at.cmp(&b.at))
    }

    /// The number of rounds of this request that led to no system, and why they failed.
    pub(super) fn rounds(&self, request: &Request) -> (u32, Vec<String>) {
        let last = self.last.as_ref().filter(|trace| trace.is_of(request));
        last.map(|trace| (trace.rounds, trace.failures.clone())).unwrap_or_default()
    }

    /// The disks that contain the installed system of this request: without its copies, if the disk itself is there.
    pub(super) fn installed<'d>(
        &self,
        request: &Request,
        disks: &'d [Disk],
    ) -> Vec<(&'d Disk, &Trace)> {
        let is_it = |trace: &Trace| trace.stage == DiskState::Installed && trace.is_of(request);
        let with_disk = |(name, trace): &'_ (String, Trace)| {
            let disk = disks.iter().find(|disk| disk.name == *name)?;
            Some(disk).filter(|_| is_it(trace))
        };
        let found: Vec<_> =
            self.on_disks.iter().filter_map(|entry| Some((with_disk(entry)?, &entry.1))).collect();
        let (own, copies): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(disk, trace)| is_one(&trace.disk, disk));
        if own.is_empty() { copies } else { own }
    }

    /// The disk that this request left without a whole system.
    pub(super) fn unfinished(&self, request: &Request) -> Option<&DiskIdentity> {
        let last = self.last.as_ref().filter(|trace| trace.is_of(request))?;
        let is_written =
            matches!(last.stage, DiskState::HalfWritten | DiskState::Written | DiskState::Erased);
        is_written.then_some(&last.disk)
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A trace of the request `r1` on the disk `S1`.
    pub(super) fn trace(stage: DiskState) -> Trace {
        Trace {
            request: "r1".into(),
            digest: "sha256-1".into(),
            stage,
            at: "2026-11-25T10:00:00Z".into(),
            proved: true,
            disk: DiskIdentity { serial: Some("S1".into()), ..DiskIdentity::default() },
            rounds: 1,
            failures: vec!["why".into()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::trace;
    use super::*;

    fn request(id: &str, digest: &str) -> Request {
        Request { id: id.into(), digest: digest.into() }
    }

    #[test]
    fn only_the_same_request_finds_its_disk_and_its_rounds() {
        let own = request("r1", "sha256-1");
        for (stage, is_unfinished) in [
            (DiskState::HalfWritten, true),
            (DiskState::Written, true),
            (DiskState::Erased, true),
            (DiskState::Installed, false),
        ] {
            let disks = ["sda", "sdb"].map(|name| crate::act::testing::disk(name, 9));
            // `boot_device.mirror` copies the partition to the second disk.
            let on_first = Trace { disk: identity_of(&disks[0]), ..trace(stage) };
            let on_disks = ["sda", "sdb"].map(|name| (name.to_owned(), on_first.clone())).into();
            let previous = Previous { last: Some(trace(stage)), on_disks };
            let installed = |request: &Request, disks| -> Vec<String> {
                let found = previous.installed(request, disks).into_iter();
                found.map(|(disk, _)| disk.name.clone()).collect()
            };
            assert_eq!(previous.unfinished(&own).is_some(), is_unfinished, "{stage:?}");
            let expected: &[&str] = if is_unfinished { &[] } else { &["sda"] };
            assert_eq!(installed(&own, &disks), expected, "{stage:?}");
            let moved: &[&str] = if is_unfinished { &[] } else { &["sdb"] };
            assert_eq!(installed(&own, &disks[1..]), moved, "{stage:?}: only the copy is left");
            assert_eq!(previous.rounds(&own), (1, vec!["why".to_owned()]));
            for other in [request("r2", "sha256-1"), request("r1", "sha256-2")] {
                assert_eq!(previous.unfinished(&other), None);
                assert!(installed(&other, &disks).is_empty());
                assert_eq!(previous.rounds(&other).0, 0);
            }
        }
    }

    #[test]
    fn request_to_another_node_is_another_one_unless_the_node_has_no_lasting_name() {
        let digest = |node: &str| Request::of("r1", node, b"x").digest;
        assert_ne!(digest("uuid-1"), digest("uuid-2"));
        assert_eq!(digest("boot-1"), digest("boot-2"));
    }

    #[test]
    fn disk_is_known_again_by_serial_or_wwn_unless_something_contradicts() {
        let disk = crate::act::testing::disk("sda", 9);
        let own = DiskIdentity { device: "/dev/sdb".into(), ..identity_of(&disk) };
        assert!(is_one(&own, &disk), "under another name");
        let nameless = Disk { serial: None, wwn: None, ..disk.clone() };
        assert!(!is_one(&identity_of(&nameless), &nameless));
        for other in [
            DiskIdentity { serial: Some("X".into()), ..own.clone() },
            DiskIdentity { wwn: None, ..own.clone() },
            DiskIdentity { size_bytes: Some(10), ..own.clone() },
        ] {
            assert!(!is_one(&other, &disk), "{other:?}");
        }
    }

    #[test]
    fn text_of_a_foreign_trace_is_short_and_visible() {
        let odd = Trace {
            at: format!("\u{1b}[31m{}", "9".repeat(500)),
            failures: vec!["\u{202e}x\n".into(); 9],
            ..trace(DiskState::Erased)
        };
        let found = Trace::parse(&serde_json::to_vec(&odd).unwrap()).unwrap();
        assert!(!found.at.contains('\u{1b}') && found.at.chars().count() <= MAX_CHARS);
        assert_eq!(found.failures.len(), 3);
        assert!(!found.failures.concat().contains(['\u{202e}', '\n']));
        let long = Trace { request: "x".repeat(MAX_BYTES), ..trace(DiskState::Erased) };
        assert!(long.bytes().is_err());
        assert_eq!(Trace::parse(&serde_json::to_vec(&long).unwrap()), None);
    }
}
