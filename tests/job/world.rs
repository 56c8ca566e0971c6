//! A simulated kernel with disks that are pulled out, plugged in, swapped and changed at any moment of a job.
//!
//! It gives names and numbers as Linux does: the lowest that is free, and one is free as soon as its disk is gone and
//! nobody holds it open. Opening the name of a disk that is gone fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use probes::block::{Disk, Filesystem, ObstacleKind};
use probes::machine::{Archive, Node, Source};
use run_coreos_installer::act::system::{Handle, Kernel};

/// When an event happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    BeforeFacts,
    AfterFacts,
    AfterOpen,
    Preflight,
    BeforeFactsAgain,
    AfterFactsAgain,
    BeforeWrite,
    WhileWriting,
    AfterWrite,
    BeforeProof,
}

impl Moment {
    pub(crate) const ALL: [Self; 10] = [
        Self::BeforeFacts,
        Self::AfterFacts,
        Self::AfterOpen,
        Self::Preflight,
        Self::BeforeFactsAgain,
        Self::AfterFactsAgain,
        Self::BeforeWrite,
        Self::WhileWriting,
        Self::AfterWrite,
        Self::BeforeProof,
    ];
}

/// What happens to the disks. A number stands for the disk that was plugged in then.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Remove(usize),
    /// Two disks change places, or one is plugged in again.
    Swap(usize, usize),
    /// Another disk takes the place of this one.
    Replace(usize, Physical),
    /// Another disk takes the name of this one, which comes back under another.
    Rename(usize, Physical),
    Grow(usize),
    ReadOnly(usize),
    Busy(usize),
    Data(usize),
    Add(Physical),
    /// The link that the instruction names leads elsewhere.
    Relink(usize),
}

/// A disk, wherever it is plugged in.
#[derive(Debug, Clone)]
pub(crate) struct Physical {
    pub(crate) serial: Option<String>,
    pub(crate) wwn: Option<String>,
    pub(crate) size_bytes: u64,
    pub(crate) obstacle: Option<ObstacleKind>,
    pub(crate) has_data: bool,
}

/// Where a disk is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) physical: usize,
    pub(crate) name: String,
    pub(crate) number: String,
    pub(crate) diskseq: u64,
}

/// The disks of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    /// Where every disk is, and what it is.
    pub(crate) disks: Vec<(Slot, Physical)>,
    /// Where the link that the instruction names leads.
    pub(crate) link: Option<String>,
}

/// The state of the simulated machine.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one feature that kernels have or lack")]
pub(crate) struct World {
    pub(crate) physicals: Vec<Physical>,
    pub(crate) slots: Vec<Slot>,
    /// How the machine was when the agent collected facts, and when it should have.
    pub(crate) truths: Vec<Truth>,
    pub(crate) n_collected: usize,
    pub(crate) link: Option<String>,
    /// The events to come: when, how many times that moment passes before, and what.
    pub(crate) events: Vec<(Moment, u32, Event)>,
    pub(crate) n_events: u64,
    /// How many times each disk was written to.
    pub(crate) writes: BTreeMap<usize, u64>,
    /// Names of the disks that are held open, whether they are still there or not.
    pub(crate) held: Vec<String>,
    /// Whether a name is kept while its disk is held, as Linux does.
    pub(crate) keeps_held_names: bool,
    pub(crate) has_diskseq: bool,
    pub(crate) has_links_by_diskseq: bool,
    pub(crate) has_counters: bool,
    pub(crate) next_diskseq: u64,
    pub(crate) opened_after_facts: bool,
}

pub(crate) const LINK: &str = "/dev/disk/custom/boot";

impl World {
    pub(crate) fn plug(&mut self, physical: usize) {
        let is_taken = |name: &String| {
            self.slots.iter().any(|slot| slot.name == *name)
                || (self.keeps_held_names && self.held.contains(name))
        };
        let free = (0..26_u8).find(|n| !is_taken(&name(*n))).unwrap();
        self.next_diskseq += 1;
        self.slots.push(Slot {
            physical,
            name: name(free),
            number: format!("8:{}", u32::from(free) * 16),
            diskseq: self.next_diskseq,
        });
    }

    fn add(&mut self, physical: Physical) {
        self.physicals.push(physical);
        self.plug(self.physicals.len() - 1);
    }

    fn unplug(&mut self, physical: usize) {
        self.slots.retain(|slot| slot.physical != physical);
    }

    /// A moment of the job passes.
    pub(crate) fn pass(&mut self, moment: Moment) {
        let mut due = Vec::new();
        self.events.retain_mut(|(at, skip, event)| {
            if *at != moment {
                return true;
            }
            if *skip > 0 {
                *skip -= 1;
                return true;
            }
            due.push(event.clone());
            false
        });
        for event in due {
            self.n_events += 1;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let change = |world: &mut Self, n: usize, change: &dyn Fn(&mut Physical)| {
            if let Some(physical) = world.physicals.get_mut(n) {
                change(physical);
            }
        };
        match event {
            Event::Remove(n) => self.unplug(n),
            Event::Swap(a, b) => {
                self.unplug(a);
                self.unplug(b);
                self.plug(b);
                if a != b {
                    self.plug(a);
                }
            }
            Event::Replace(n, other) => {
                self.unplug(n);
                self.add(other);
            }
            Event::Rename(n, other) => {
                self.unplug(n);
                self.add(other);
                self.plug(n);
            }
            Event::Grow(n) => change(self, n, &|disk| disk.size_bytes += 1 << 30),
            Event::ReadOnly(n) => {
                change(self, n, &|disk| disk.obstacle = Some(ObstacleKind::Structural));
            }
            Event::Busy(n) => change(self, n, &|disk| disk.obstacle = Some(ObstacleKind::Mounted)),
            Event::Data(n) => change(self, n, &|disk| disk.has_data = true),
            Event::Add(physical) => self.add(physical),
            Event::Relink(n) => {
                self.link = self.slots.get(n).map(|slot| format!("/dev/{}", slot.name));
            }
        }
    }

    /// The disk that a path leads to now.
    pub(crate) fn at(&self, path: &str) -> Option<&Slot> {
        let path = if path == LINK { self.link.as_deref()? } else { path };
        if let Some(number) = path.strip_prefix("/dev/disk/by-diskseq/") {
            let is_it = |slot: &&Slot| slot.diskseq.to_string() == number;
            return self.slots.iter().find(is_it).filter(|_| self.has_links_by_diskseq);
        }
        self.slots.iter().find(|slot| path == format!("/dev/{}", slot.name))
    }

    /// Keeps how the machine is now.
    pub(crate) fn note_truth(&mut self) {
        let disks = self.slots.iter();
        let disks = disks.map(|slot| (slot.clone(), self.physicals[slot.physical].clone()));
        let truth = Truth { disks: disks.collect(), link: self.link.clone() };
        self.truths.push(truth);
    }

    /// Whether a disk is where it was and has the size and the write protection that the agent read last.
    pub(crate) fn is_as_reported(&self, name: &str) -> bool {
        let reported =
            self.truths.last().and_then(|t| t.disks.iter().find(|(s, _)| s.name == name));
        reported.is_some_and(|(slot, reported)| {
            let now = &self.physicals[slot.physical];
            let is_fixed = |disk: &Physical| disk.obstacle == Some(ObstacleKind::Structural);
            self.slots.contains(slot)
                && now.size_bytes == reported.size_bytes
                && is_fixed(now) == is_fixed(reported)
        })
    }

    pub(crate) fn write(&mut self, physical: usize) {
        *self.writes.entry(physical).or_default() += 1;
        self.physicals[physical].has_data = true;
    }

    pub(crate) fn facts(&self, slot: &Slot) -> Disk {
        let physical = &self.physicals[slot.physical];
        let obstacles: Vec<_> =
            physical.obstacle.map(|kind| kind.because("simulated")).into_iter().collect();
        let filesystem = Filesystem { kind: "ext4".into(), ..Filesystem::default() };
        Disk {
            name: slot.name.clone(),
            device: format!("/dev/{}", slot.name),
            device_number: Some(slot.number.clone()),
            diskseq: self.has_diskseq.then_some(slot.diskseq),
            size_bytes: Some(physical.size_bytes),
            logical_block_bytes: Some(512),
            serial: physical.serial.clone(),
            wwn: physical.wwn.clone(),
            by_id: physical.serial.iter().map(|s| format!("/dev/disk/by-id/x-{s}")).collect(),
            filesystem: physical.has_data.then_some(filesystem),
            eligible: obstacles.is_empty(),
            not_eligible_because: obstacles.iter().map(|o| o.text.clone()).collect(),
            obstacles,
            ..Disk::default()
        }
    }

    fn files(&self) -> Archive {
        let mut archive = Archive::default();
        let mut set = |path: String, node: Node| archive.set(&path, Some(node));
        let file = |text: String| Node::File(format!("{text}\n").into_bytes().into());
        set("proc/uptime".into(), file("1000.00 1000.00".into()));
        for slot in &self.slots {
            let (physical, name) = (&self.physicals[slot.physical], &slot.name);
            let at = |attribute: &str| format!("sys/devices/{name}/{attribute}");
            set(
                format!("sys/dev/block/{}", slot.number),
                Node::Link(format!("../../devices/{name}")),
            );
            set(format!("sys/block/{name}"), Node::Link(format!("../devices/{name}")));
            set(at("dev"), file(slot.number.clone()));
            set(at("size"), file((physical.size_bytes / 512).to_string()));
            let is_read_only = physical.obstacle == Some(ObstacleKind::Structural);
            set(at("ro"), file(u8::from(is_read_only).to_string()));
            if let Some(serial) = &physical.serial {
                set(at("device/serial"), file(serial.clone()));
            }
            if let Some(wwn) = &physical.wwn {
                set(at("device/wwid"), file(wwn.clone()));
            }
            if self.has_diskseq {
                set(at("diskseq"), file(slot.diskseq.to_string()));
            }
            if self.has_counters {
                let n = self.writes.get(&slot.physical).copied().unwrap_or_default();
                set(at("stat"), file(format!("9 0 9 0 {n} 0 {} 0 0 0 0", n * 8)));
                set(at("queue/iostats"), file("1".into()));
            }
            // udev has known every disk for long, so that no case waits.
            set(format!("run/udev/data/b{}", slot.number), file("I:1".into()));
        }
        archive
    }
}

fn name(n: u8) -> String {
    format!("sd{}", char::from(b'a' + n))
}

/// The simulated kernel.
#[derive(Debug, Clone)]
pub(crate) struct Simulated(pub(crate) Arc<Mutex<World>>);

impl Simulated {
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }
}

impl Kernel for Simulated {
    fn source(&self) -> io::Result<Source> {
        let mut world = self.lock();
        if world.opened_after_facts {
            world.opened_after_facts = false;
            let is_again = world.n_collected > 1;
            world.pass(if is_again { Moment::AfterFactsAgain } else { Moment::AfterOpen });
        }
        Ok(Source::unpacked(world.files()))
    }

    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        let mut world = self.lock();
        let is_again = world.n_collected > 0;
        world.pass(if is_again { Moment::BeforeFactsAgain } else { Moment::BeforeFacts });
        world.note_truth();
        world.n_collected += 1;
        world.opened_after_facts = is_again;
        Ok(Some(world.slots.iter().map(|slot| world.facts(slot)).collect()))
    }

    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>> {
        let mut world = self.lock();
        world.pass(Moment::AfterFacts);
        world.opened_after_facts = true;
        let slot = world.at(device).cloned().ok_or(io::ErrorKind::NotFound)?;
        world.held.push(slot.name.clone());
        Ok(Arc::new(Held { kernel: self.clone(), slot }))
    }

    fn number_of(&self, path: &str) -> io::Result<Option<String>> {
        let world = self.lock();
        let slot = world.at(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Some(slot.number.clone()))
    }

    fn resolve(&self, path: &str) -> Option<String> {
        let world = self.lock();
        world.at(path).map(|slot| format!("/dev/{}", slot.name))
    }
}

/// A disk that is held open.
#[derive(Debug)]
struct Held {
    kernel: Simulated,
    slot: Slot,
}

impl Handle for Held {
    fn number(&self) -> io::Result<Option<String>> {
        Ok(Some(self.slot.number.clone()))
    }

    fn diskseq(&self) -> io::Result<Option<u64>> {
        Ok(self.kernel.lock().has_diskseq.then_some(self.slot.diskseq))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocated(&self, _: &Disk) -> Option<Vec<Range<u64>>> {
        Some(Vec::new())
    }

    /// Every simulated disk reads as zeros.
    fn file(&self) -> io::Result<File> {
        static ZEROS: OnceLock<File> = OnceLock::new();
        let zeros = || {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 40).unwrap();
            file
        };
        ZEROS.get_or_init(zeros).try_clone()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut world = self.kernel.lock();
        if let Some(at) = world.held.iter().position(|name| *name == self.slot.name) {
            world.held.remove(at);
        }
    }
}
