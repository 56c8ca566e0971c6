//! The trace that an install leaves for the next live boot: in a UEFI variable before the first write, and after the proof there and
//! in a file on the disk's EFI system partition. Kernel arguments are left alone, because sealed images take none.
//!
//! Anyone may have written a trace. It therefore allows nothing but to go on with a disk that contains no more than remains of a
//! write, and to start a disk instead of writing it again.

mod file;
mod variable;

use std::io;

use formats::digest::{Algorithm, Hasher};
use probes::block::Disk;
use probes::guard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tracing::warn;

use super::confirm::ConfirmDigests;
use super::outcome::{DiskIdentity, DiskState};
use super::{System, identity_of};
use crate::ask::{Answer, GRACE, ask_within, receive_within};
use crate::clean;

pub(super) use self::file::{LIMIT, leave};
pub(super) use self::variable::{forget, remember};

/// The largest trace that is read or written, in bytes.
const MAX_BYTES: usize = 4096;
/// The longest text in one, in characters.
const MAX_CHARS: usize = 160;
/// Stack of a thread that reads a disk.
const STACK_BYTES: usize = 2 << 20;
/// Rounds of one request after which it is not tried again.
pub const MAX_ROUNDS: u32 = 3;

/// A request, by which an install is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        let mut digest = Hasher::new(Algorithm::Sha256);
        for part in [node_id.as_bytes(), b"\n", asked] {
            digest.update(part);
        }
        Self { id: id.to_owned(), digest: digest.finish() }
    }
}

/// The trace of an install.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Id of the request that installed the system; of the one that gave it a config, if no trace of an install was found.
    pub request: String,
    /// Digest of the node's id and of what it asked for: `sha256-` and 64 hexadecimal digits.
    pub digest: String,
    /// The state of the disk: `half_written` from before the first write on.
    pub stage: DiskState,
    /// When that was, or when the system got another config, by the node's clock: RFC 3339, UTC.
    pub at: String,
    /// True if the whole image was compared with the disk.
    pub proved: bool,
    /// Id of the kernel's boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
    /// The disk.
    pub disk: DiskIdentity,
    /// The digests of what the installed system confirms, if it does.
    pub confirm: Option<ConfirmDigests>,
    /// Number of rounds of the request that led to no system.
    #[serde(default)]
    pub rounds: u32,
    /// Why they failed, the last one at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The request that gave the installed system the config that it applies last; absent for that of the install.
    pub config_of: Option<Request>,
}

impl Trace {
    /// True if it is of this request.
    pub(super) fn is_of(&self, request: &Request) -> bool {
        self.request == request.id && self.digest == request.digest
            || self.config_of.as_ref() == Some(request)
    }

    /// Counts a round that led to no system.
    pub(super) fn count(&mut self, why: &str) {
        self.rounds = self.rounds.saturating_add(1);
        self.failures.push(short(why));
        let n_old = self.failures.len().saturating_sub(MAX_ROUNDS as usize);
        self.failures.drain(..n_old);
    }

    /// Replaces the reason of the last round that was counted.
    pub(super) fn explain(&mut self, why: &str) {
        self.failures.pop();
        self.failures.push(short(why));
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes.get(..MAX_BYTES).unwrap_or(bytes)).ok()
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        if bytes.len() > MAX_BYTES { Err("it is too long".into()) } else { Ok(bytes) }
    }

    /// The trace as it may be shown: anyone may have written it.
    pub(super) fn shown(&self) -> Self {
        let field = |text: &Option<String>| text.as_deref().map(short);
        Self {
            request: short(&self.request),
            digest: short(&self.digest),
            at: short(&self.at),
            boot: field(&self.boot),
            disk: DiskIdentity {
                device: short(&self.disk.device),
                serial: field(&self.disk.serial),
                wwn: field(&self.disk.wwn),
                ..self.disk
            },
            confirm: self.confirm.as_ref().map(|confirm| ConfirmDigests {
                token_digest: short(&confirm.token_digest),
                ignition_digest: short(&confirm.ignition_digest),
            }),
            failures: self
                .failures
                .iter()
                .take(MAX_ROUNDS as usize)
                .map(|why| short(why))
                .collect(),
            config_of: self
                .config_of
                .as_ref()
                .map(|of| Request { id: short(&of.id), digest: short(&of.digest) }),
            ..*self
        }
    }
}

/// One line without secrets and odd characters: any system of the machine can read a variable.
fn short(text: &str) -> String {
    clean::text(text, MAX_CHARS)
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
#[derive(Debug)]
pub struct Previous {
    /// That of the last install that began, if the firmware keeps variables.
    pub last: Option<Trace>,
    /// Those on disks, with the kernel's name of each.
    pub on_disks: Vec<(String, Trace)>,
    /// The kernel's names of disks with a file in the place of a trace that is none.
    pub damaged: Vec<String>,
}

impl Previous {
    /// Reads the variable, and the EFI system partition of each of these disks.
    pub fn read(system: &System, disks: &[Disk]) -> Self {
        let efivars = system.is_uefi().then(|| system.efivars());
        let is_own = |disk: &&Disk| !disk.is_live_medium && disk.unit().is_none();
        let disks: Vec<Disk> = disks.iter().filter(is_own).cloned().collect();
        let recall = move || variable::recall(&efivars?);
        let last = ask_within("trace", file::LIMIT, system.stop(), recall);
        // All at once, so that a disk that does not respond delays nothing and hides no trace of another one.
        let ask = |disk: Disk| {
            let (name, system) = (disk.name.clone(), system.clone());
            (name, guard::ask("trace", STACK_BYTES, move || file::of(&system, &disk)))
        };
        let asked: Vec<_> = disks.into_iter().map(ask).collect();
        let (clock, stop) = (system.clock().as_ref(), system.stop());
        let end = clock.now_outside() + file::LIMIT;
        let receive = |answer: io::Result<Answer<_>>| {
            let answer = answer.map_err(|error| format!("could not start a thread: {error}"))?;
            let left = end.saturating_duration_since(clock.now_outside());
            let answer = receive_within(clock, &answer, (left, GRACE), stop);
            answer.map_err(|why| why.to_string())?
        };
        let unread = |what: &str, why: String| {
            warn!("reading the trace of an earlier install {what}: {why}");
        };
        let last = last.inspect_err(|why| unread("in the firmware", why.to_string()));
        let mut damaged = Vec::new();
        let on_disk = |(name, answer): (String, _)| match receive(answer) {
            Ok(None) => None,
            Ok(Some(Ok(trace))) => Some((name, trace)),
            Ok(Some(Err(_))) => {
                unread(&format!("on /dev/{name}"), "it is damaged".to_owned());
                damaged.push(name);
                None
            }
            Err(why) => {
                unread(&format!("on /dev/{name}"), why);
                None
            }
        };
        let on_disks = asked.into_iter().filter_map(on_disk).collect();
        Self { last: last.unwrap_or_default(), on_disks, damaged }
    }

    /// The newest of all traces, as it may be shown.
    pub fn newest(&self) -> Option<Trace> {
        let on_disks = self.on_disks.iter().map(|(_, trace)| trace);
        on_disks.chain(&self.last).max_by(|a, b| a.at.cmp(&b.at)).map(Trace::shown)
    }

    /// The trace of the last install that began, if this request ordered it.
    pub(super) fn last_of(&self, request: &Request) -> Option<&Trace> {
        self.last.as_ref().filter(|trace| trace.is_of(request))
    }

    /// The disk with the installed system of this request: the one that the trace names, also if only the firmware has the trace;
    /// a copy, such as the second half of a mirror, only if that disk is gone.
    pub(super) fn installed<'d>(
        &self,
        request: &Request,
        disks: &'d [Disk],
    ) -> Option<(&'d Disk, &Trace)> {
        let is_it = |trace: &&Trace| trace.stage == DiskState::Installed && trace.is_of(request);
        // What began later counts.
        if self.last_of(request).is_some_and(|last| !is_it(&last)) {
            return None;
        }
        let copies = || self.on_disks.iter().filter(|(_, trace)| is_it(&trace));
        let traces = copies().map(|(_, trace)| trace).chain(self.last.iter().filter(is_it));
        let mut owned = traces.filter_map(|trace| {
            Some((disks.iter().find(|disk| is_one(&trace.disk, disk))?, trace))
        });
        owned.next().or_else(|| {
            copies().find_map(|(name, trace)| {
                Some((disks.iter().find(|disk| disk.name == *name)?, trace))
            })
        })
    }

    /// The disk that an install of this node left without a whole system, whatever ordered it.
    pub(super) fn unfinished(&self) -> Option<&DiskIdentity> {
        let last = self.last.as_ref()?;
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
            boot: None,
            disk: DiskIdentity { serial: Some("S1".into()), ..DiskIdentity::default() },
            confirm: None,
            rounds: 1,
            failures: vec!["why".into()],
            config_of: None,
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
    fn only_the_same_request_finds_its_disk_and_a_copy_only_without_it() {
        let own = request("r1", "sha256-1");
        let disks = ["sda", "sdb"].map(|name| crate::act::testing::disk(name, 9));
        let of = |stage| Trace { disk: identity_of(&disks[0]), ..trace(stage) };
        let installed = |last: Option<Trace>, on: &[&str], request: &Request, disks: &[Disk]| {
            let on_disks = on.iter().map(|name| ((*name).to_owned(), of(DiskState::Installed)));
            let damaged = Vec::new();
            let previous = Previous { last, on_disks: on_disks.collect(), damaged };
            previous.installed(request, disks).map(|(disk, _)| disk.name.clone())
        };
        let (done, cut) = (of(DiskState::Installed), of(DiskState::HalfWritten));
        for (last, on, here, expected) in [
            (None, &["sda"][..], &disks[..], Some("sda")),
            // `boot_device.mirror` copies the partition to the second disk.
            (None, &["sdb", "sda"], &disks, Some("sda")),
            (None, &["sdb"], &disks, Some("sda")),
            (None, &["sdb"], &disks[1..], Some("sdb")),
            // The file could not be read.
            (Some(done.clone()), &[], &disks, Some("sda")),
            (Some(done.clone()), &[], &disks[1..], None),
            // It was begun once more, and not ended.
            (Some(cut), &["sda"], &disks, None),
            (None, &[], &disks, None),
        ] {
            assert_eq!(
                installed(last.clone(), on, &own, here).as_deref(),
                expected,
                "{last:?} {on:?}"
            );
        }
        for other in [request("r2", "sha256-1"), request("r1", "sha256-2")] {
            assert_eq!(installed(Some(done.clone()), &["sda"], &other, &disks), None);
        }
    }

    #[test]
    fn disk_without_a_whole_system_is_known_whatever_ordered_it() {
        for (stage, is_unfinished) in [
            (DiskState::HalfWritten, true),
            (DiskState::Written, true),
            (DiskState::Erased, true),
            (DiskState::Installed, false),
            (DiskState::Untouched, false),
        ] {
            let last = Some(trace(stage));
            let previous = Previous { last, on_disks: Vec::new(), damaged: Vec::new() };
            assert_eq!(previous.unfinished().is_some(), is_unfinished, "{stage:?}");
        }
    }

    #[test]
    fn last_three_rounds_are_kept_and_a_forged_number_of_them_is_no_panic() {
        let mut trace = Trace { rounds: u32::MAX - 1, ..trace(DiskState::HalfWritten) };
        for why in ["a", "b", "c", "token=SECRET\u{1b}"] {
            trace.count(why);
        }
        trace.explain(&"x".repeat(500));
        assert_eq!(trace.rounds, u32::MAX);
        assert_eq!(trace.failures.len(), 3);
        assert!(trace.failures.iter().all(|why| why.chars().count() <= MAX_CHARS));
        assert_eq!(Trace::parse(&trace.bytes().unwrap()), Some(trace));
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
        let odd = format!("\u{1b}[31m\u{202e}\n{}", "9".repeat(200));
        let odd = Trace {
            request: odd.clone(),
            at: odd.clone(),
            failures: vec![odd.clone(); 5],
            disk: DiskIdentity { device: odd, ..DiskIdentity::default() },
            ..trace(DiskState::Erased)
        };
        let found = Trace::parse(&serde_json::to_vec(&odd).unwrap()).unwrap();
        let previous = Previous { last: Some(found), on_disks: Vec::new(), damaged: Vec::new() };
        let shown = previous.newest().unwrap();
        assert_eq!(shown.failures.len(), 3);
        for text in [&shown.request, &shown.at, &shown.failures[2], &shown.disk.device] {
            assert!(text.chars().count() <= MAX_CHARS, "{text}");
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\n']), "{text:?}");
        }
        let long = Trace { request: "x".repeat(MAX_BYTES), ..trace(DiskState::Erased) };
        assert!(long.bytes().is_err());
        assert_eq!(Trace::parse(&serde_json::to_vec(&long).unwrap()), None);
    }
}
