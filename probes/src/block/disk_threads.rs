//! Reads the content and then the health of all disks, each on its own thread with its own deadline, so
//! that a hanging disk delays no other.
//!
//! Not on the threads of `pool`: a disk may take 15 s to start its motor, so every disk needs its thread
//! at once, and each answers in parts; the first counts even if the next never comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::guard;
use crate::machine::{Machine, Unanswered};
use crate::sys::disk::DiskHandle;

use super::bay::{self, DiskBay};
use super::content::Content;
use super::content_reader;
use super::health::{self, Answers};
use super::kernel_name::{emmc_parent, is_floppy, is_optical};
use super::listing::{BlockDevice, Listing};
use super::samples;

/// A healthy disk answers within milliseconds, one that has to start its motor within 15 s. All disks
/// together end before the deadline of the collector.
const PATIENCE: Patience =
    Patience { answer: Duration::from_secs(20), all: Duration::from_secs(25) };
/// Most disks that are read at once; for the others only udev's facts are known.
const MAX_DISKS: usize = 512;
/// Enough, since the buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// Time limits for disks that are read at the same time.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For each answer of each disk, from its start or its previous answer.
    answer: Duration,
    /// For all disks together.
    all: Duration,
}

/// Further questions to one disk, and the way to ask them.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    /// Method of reading its health.
    pub method: health::HealthMethod,
    /// The bay whose lights the enclosure reports.
    pub bay: Option<DiskBay>,
}

/// What each disk is asked for, by name.
pub(super) type Requests = BTreeMap<String, Request>;

/// What was read of each disk, by name.
pub(super) type Contents = BTreeMap<String, Content>;

/// A part that one disk's thread sends: first its content, then its health, so that a disk that hangs on the second
/// question loses only its health.
enum Part {
    Content(Box<Content>),
    Answers(Box<Answers>),
    Sample(Option<String>),
    Ended,
    Broken(guard::Panic),
}

type Send<'a> = &'a dyn Fn(Part);

/// Reads the disks that can have content, by name. `requests` has what else each is asked for.
pub(super) fn read_all(machine: &Machine, listing: &Listing, requests: &Requests) -> Contents {
    read_with(machine, listing, requests, PATIENCE, read_both)
}

fn read_both(machine: &Machine, device: &BlockDevice, request: &Request, send: Send<'_>) {
    let disk = DiskHandle::new(&device.node());
    let content = content_reader::read(machine, device, &disk);
    // A disk that fails to return its first bytes may hang on further commands, so its health is not read.
    let is_read = content.failure.is_none();
    send(Part::Content(Box::new(content)));
    let asked = health::read(machine, device, &disk, &request.method, is_read);
    let bay = request.bay.as_ref().and_then(|bay| bay::ask(machine, bay));
    send(Part::Answers(Box::new(Answers { bay, ..asked })));
    if is_read {
        send(Part::Sample(samples::failure(machine, device, &disk)));
    }
}

/// Reads each disk with `read` on its own thread. A disk that does not answer in time keeps its thread; the kernel ends
/// the read when it gives up on the disk.
fn read_with(
    machine: &Machine,
    listing: &Listing,
    requests: &Requests,
    patience: Patience,
    read: fn(&Machine, &BlockDevice, &Request, Send<'_>),
) -> Contents {
    let (sender, answers) = mpsc::channel();
    let mut waiting: Vec<&BlockDevice> = Vec::new();
    let mut contents = BTreeMap::new();
    let readable = listing.all().filter(|device| is_readable(device, listing));
    for device in readable.take(MAX_DISKS) {
        let (view, own, sender) = (machine.clone(), device.clone(), sender.clone());
        let request = requests.get(&device.name).cloned().unwrap_or_default();
        let (failed, name) = (sender.clone(), device.name.clone());
        let work = move || {
            let send = |part| drop(sender.send((own.name.clone(), part)));
            read(&view, &own, &request, &send);
            send(Part::Ended);
        };
        let on_panic = move |panic| drop(failed.send((name, Part::Broken(panic))));
        match guard::spawn("disk", STACK_BYTES, work, on_panic) {
            Ok(()) => waiting.push(device),
            Err(error) => {
                let content = unanswered(machine, device, error.to_string(), false);
                contents.insert(device.name.clone(), content);
            }
        }
    }
    drop(sender);
    let mut waits = Waits::new(&waiting, patience);
    while let Some(rest) = waits.rest() {
        let (name, part) = match answers.recv_timeout(rest) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match part {
            Part::Ended => drop(waits.until.remove(&name)),
            Part::Broken(panic) => {
                waits.until.remove(&name);
                waits.broken.insert(name, format!("a bug in the reader: {panic}"));
            }
            Part::Content(content) => {
                waits.renew(&name);
                contents.insert(name, *content);
            }
            Part::Answers(answer) => {
                contents.entry(name.clone()).or_default().answers = *answer;
                waits.renew(&name);
                waits.answered.insert(name);
            }
            Part::Sample(failure) => {
                contents.entry(name).or_default().sample_failure = failure;
            }
        }
    }
    give_up(machine, &waiting, &waits, &mut contents);
    with_bays(requests, &mut contents);
    contents
}

/// Reports the missing data for each disk whose thread did not finish.
fn give_up(machine: &Machine, devices: &[&BlockDevice], waits: &Waits, contents: &mut Contents) {
    for device in devices {
        let failure = waits.why(&device.name);
        if !contents.contains_key(&device.name) {
            let is_broken = waits.broken.contains_key(&device.name);
            let is_late = !is_broken && !waits.cut_off.contains(&device.name);
            contents.insert(device.name.clone(), unanswered(machine, device, failure, is_late));
        } else if !waits.answered.contains(&device.name) {
            machine.problem(&format!("dev/{}", device.node()), failure, "its health");
        } else if waits.late.contains(&device.name) {
            let failure = format!("its start, middle or end cannot be read: {failure}");
            contents.entry(device.name.clone()).or_default().sample_failure = Some(failure);
        }
    }
}

/// The name of the bay is known even if the enclosure does not answer.
fn with_bays(requests: &Requests, contents: &mut Contents) {
    for (name, request) in requests.iter().filter(|(_, request)| request.bay.is_some()) {
        let bay = &mut contents.entry(name.clone()).or_default().answers.bay;
        *bay = bay.take().or_else(|| request.bay.clone());
    }
}

/// Time limits of the disks that have not finished, and what became of the others.
struct Waits {
    until: BTreeMap<String, Instant>,
    /// Disks that were given up at the end of the time for all, not at their own limit.
    cut_off: BTreeSet<String>,
    /// Disks that were given up at their own limit.
    late: BTreeSet<String>,
    /// Disks that have answered the questions about their health.
    answered: BTreeSet<String>,
    /// The panic of each disk's thread that had one.
    broken: BTreeMap<String, String>,
    patience: Patience,
    end: Instant,
}

impl Waits {
    fn new(disks: &[&BlockDevice], patience: Patience) -> Waits {
        let now = Instant::now();
        let end = now + patience.all;
        let first = end.min(now + patience.answer);
        let until = disks.iter().map(|device| (device.name.clone(), first)).collect();
        let (cut_off, late, answered, broken) = Default::default();
        Waits { until, cut_off, late, answered, broken, patience, end }
    }

    /// Time to wait for the next answer; gives up late disks. `None` if no disk is left.
    fn rest(&mut self) -> Option<Duration> {
        let now = Instant::now();
        for (name, until) in self.until.extract_if(.., |_, until| *until <= now) {
            let given_up = if until == self.end { &mut self.cut_off } else { &mut self.late };
            given_up.insert(name);
        }
        self.until.values().min().map(|until| until.saturating_duration_since(now))
    }

    /// Reason that the disk was given up.
    fn why(&self, name: &str) -> String {
        let Patience { answer, all } = self.patience;
        if let Some(panic) = self.broken.get(name) {
            panic.clone()
        } else if self.cut_off.contains(name) {
            format!("no answer within the {} ms for all disks", all.as_millis())
        } else {
            format!("no answer within {} ms", answer.as_millis())
        }
    }

    fn renew(&mut self, name: &str) {
        let until = self.end.min(Instant::now() + self.patience.answer);
        if let Some(known) = self.until.get_mut(name) {
            *known = until;
        }
    }
}

fn unanswered(machine: &Machine, device: &BlockDevice, why: String, is_fault: bool) -> Content {
    machine.problem(&format!("dev/{}", device.node()), why.clone(), "its first 4096 bytes");
    // No kernel error: `is_fault` goes by the number, and a silent disk counts as ETIMEDOUT.
    let errno = is_fault.then_some(Errno::ETIMEDOUT as i32);
    let failure = Some(Unanswered { why, is_denied: false, errno });
    Content { failure, ..Content::default() }
}

/// Drives for removable media, boot areas of an eMMC and empty disks are not read. Neither are the paths
/// of a multipath device: the device itself is read, and a passive path returns errors.
fn is_readable(device: &BlockDevice, listing: &Listing) -> bool {
    let is_drive = is_optical(&device.name) || is_floppy(&device.name);
    !is_drive
        && !listing.is_path(&device.name)
        && emmc_parent(&device.name).is_none()
        && device.size_bytes != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::content_reader::is_fault;
    use crate::testing::{tree, tree_in};

    #[test]
    fn hanging_disk_costs_no_other_disk_and_a_hang_on_health_costs_only_health() {
        let machine = tree_in(&[
            ("sys/block/sda", &[("size", "2048")]),
            ("sys/block", &[("sdb/size", "2048"), ("sdc/size", "2048"), ("sdd/size", "2048")]),
        ]);
        let listing = super::super::listing::list(&machine);
        let started = Instant::now();
        let requests = BTreeMap::new();
        let patience = Patience { answer: Duration::from_millis(200), all: Duration::from_mins(1) };
        let contents = read_with(&machine, &listing, &requests, patience, |_, device, _, send| {
            match device.name.as_str() {
                "sda" => std::thread::sleep(Duration::from_mins(10)),
                "sdb" => panic!("out of cheese"),
                _ => {}
            }
            send(Part::Content(Box::new(Content { is_read: true, ..Content::default() })));
            if device.name == "sdd" {
                std::thread::sleep(Duration::from_mins(10));
            }
            send(Part::Answers(Box::default()));
        });
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(contents["sdc"].is_read && contents["sdd"].is_read);
        assert_eq!(contents["sdd"].failure, None);
        let failure = |name: &str| contents[name].failure.clone();
        assert_eq!(failure("sda").unwrap().why, "no answer within 200 ms");
        let unreadable = ["sda", "sdb", "sdc", "sdd"]
            .map(|name| failure(name).is_some_and(|one| is_fault(&one)));
        assert_eq!(unreadable, [true, false, false, false], "a bug is not a fault of the disk");
        let broken = failure("sdb").unwrap().why;
        assert!(broken.starts_with("a bug in the reader: out of cheese"), "{broken}");
        let problems = machine.problems();
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["/dev/sda", "/dev/sdb", "/dev/sdd"]);
        assert_eq!(problems[2].expected, "its health");
    }

    /// Reads two disks that take 0.8 s for each of two answers; returns their contents and the problems.
    fn slow(patience: Patience) -> (BTreeMap<String, Content>, Vec<String>) {
        let machine = tree(&[("sys/block/sda/size", "2048\n"), ("sys/block/sdb/size", "2048\n")]);
        let listing = super::super::listing::list(&machine);
        let contents =
            read_with(&machine, &listing, &BTreeMap::new(), patience, |_, _, _, send| {
                std::thread::sleep(Duration::from_millis(800));
                send(Part::Content(Box::new(Content { is_read: true, ..Content::default() })));
                std::thread::sleep(Duration::from_millis(800));
                send(Part::Answers(Box::default()));
            });
        (contents, machine.problems().into_iter().map(|problem| problem.found).collect())
    }

    #[test]
    fn each_disk_has_a_deadline_of_its_own_for_each_answer() {
        let answer = Duration::from_millis(1500);
        let (contents, problems) = slow(Patience { answer, all: Duration::from_mins(1) });
        assert!(contents.values().all(|content| content.is_read) && contents.len() == 2);
        assert_eq!(problems, [""; 0], "1.6 s in all, and no answer took 1.5 s");
    }

    #[test]
    fn wait_for_all_disks_together_is_bounded() {
        let (answer, all) = (Duration::from_mins(1), Duration::from_millis(1200));
        let (contents, problems) = slow(Patience { answer, all });
        assert!(contents["sda"].is_read && contents["sdb"].is_read);
        // Their second answers came too late.
        assert_eq!(problems, ["no answer within the 1200 ms for all disks"; 2]);
    }
}
