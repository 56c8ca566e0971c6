//! Whatever happens to the disks at whatever moment, nothing is written but the one disk that the instruction means.
//!
//! Thousands of machines with random disks, instructions and events run through the code of a job that chooses,
//! holds, checks and writes. Only the kernel and coreos-installer are simulated. What may be written is decided a
//! second time by [`meant`], which shares no code with the agent.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use probes::block::{Disk, ObstacleKind};
use run_coreos_installer::act::install::{Mark, Watch};
use run_coreos_installer::act::run::{Task, write};
use run_coreos_installer::act::selection::Selection;
use run_coreos_installer::act::writers::{End, Ran, Writer};
use run_coreos_installer::act::{Failure, System, settle};
use run_coreos_installer::act::{Outcome, Stage, State};
use run_coreos_installer::api::{Code, DiskState, Install};
use run_coreos_installer::clock::Clock;
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::random::Random;
use super::world::{Event, LINK, Moment, Physical, Simulated, Slot, Truth, World};

/// How many machines are tried.
fn n_cases() -> u64 {
    if std::env::var_os("RCI_TORTURE").is_some() { 10_000 } else { 4_000 }
}

/// A clock of one case, which does not wait.
#[derive(Debug)]
struct SimulatedClock(Mutex<Instant>);

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }
    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn sleep(&self, duration: Duration, _: &Stop) {
        *self.0.lock().unwrap() += duration;
    }
    fn random(&self) -> u32 {
        7
    }
}

fn percent(random: &mut Random, percent: usize) -> bool {
    random.below(100) < percent
}

/// A disk whose serial number and WWN belong to `n`; one in ten shares the serial number of another disk.
fn physical(random: &mut Random, n: usize) -> Physical {
    let n = if percent(random, 10) { 0 } else { n };
    let obstacle = match random.below(20) {
        0 => Some(ObstacleKind::Structural),
        1 => Some(ObstacleKind::Mounted),
        2 => Some(ObstacleKind::Unknown),
        _ => None,
    };
    Physical {
        serial: (!percent(random, 15)).then(|| format!("SER-{n:04}")),
        wwn: percent(random, 50).then(|| format!("naa.5000c500000000{n:02x}")),
        size_bytes: (1 + random.below(4) as u64) << 30,
        obstacle,
        has_data: percent(random, 40),
    }
}

fn event(random: &mut Random, n_disks: usize) -> (Moment, u32, Event) {
    let n = random.below(n_disks);
    let new = |random: &mut Random| {
        let number = 50 + random.below(40);
        let mut disk = physical(random, number);
        if percent(random, 50) {
            disk.obstacle = None;
            disk.has_data = false;
        }
        disk
    };
    let event = match random.below(12) {
        0 => Event::Remove(n),
        1 => Event::Swap(n, n),
        2 | 3 => Event::Swap(n, random.below(n_disks)),
        4 | 5 => Event::Replace(n, new(random)),
        6 => Event::Rename(n, new(random)),
        7 => Event::Grow(n),
        8 => Event::ReadOnly(n),
        9 => [Event::Busy(n), Event::Data(n)][random.below(2)].clone(),
        10 => Event::Add(new(random)),
        _ => Event::Relink(n),
    };
    (Moment::ALL[random.below(10)], u32::from(percent(random, 20)), event)
}

/// How an instruction says which disk it means.
#[derive(Debug, Clone)]
enum Asked {
    Serial(String),
    Device(String),
    Smallest,
    Largest,
    Nothing,
}

#[derive(Debug, Clone)]
struct Order {
    asked: Asked,
    expected_serial: Option<String>,
    /// `refuse`, `coreos` or `wipe`; `None` for the default.
    policy: Option<&'static str>,
    protected: Option<String>,
}

impl Order {
    fn new(random: &mut Random, world: &World) -> Self {
        let n = random.below(world.slots.len());
        let serial = |n: usize| world.physicals[n].serial.clone();
        let asked = match (random.below(8), serial(n)) {
            (0 | 1, Some(serial)) => Asked::Serial(serial),
            (2, Some(serial)) => Asked::Device(format!("/dev/disk/by-id/x-{serial}")),
            (3, _) => Asked::Device(LINK.into()),
            (4, _) => Asked::Smallest,
            (5, _) => Asked::Largest,
            (6, _) => Asked::Nothing,
            _ => Asked::Device(format!("/dev/{}", world.slots[n].name)),
        };
        Self {
            asked,
            expected_serial: serial(n).filter(|_| percent(random, 20)),
            policy: [None, Some("refuse"), Some("coreos"), Some("wipe")][random.below(4)],
            protected: serial(random.below(world.slots.len())).filter(|_| percent(random, 15)),
        }
    }

    fn install(&self) -> Install {
        let disk = match &self.asked {
            Asked::Serial(serial) => json!({"hints": {"serial": serial}}),
            Asked::Device(device) => json!({"device": device}),
            Asked::Smallest => json!({"if_several": "smallest"}),
            Asked::Largest => json!({"if_several": "largest"}),
            Asked::Nothing => Value::Null,
        };
        let value = json!({
            "ignition": {"inline": "{}"}, "disk": disk, "expect": {"serial": self.expected_serial},
            "existing_data": self.policy, "protect": self.protected.as_slice(),
        });
        serde_json::from_value(value).unwrap()
    }
}

/// The disk that an order means on such a machine, and may write. `ours` was begun to be written by this job, so its
/// content counts no more.
fn meant(
    order: &Order,
    disks: &[(Slot, Physical)],
    link: Option<&str>,
    ours: Option<usize>,
) -> Option<usize> {
    let possible = |disk: &Physical| disk.obstacle != Some(ObstacleKind::Structural);
    let mut found: Vec<&(Slot, Physical)> = disks
        .iter()
        .filter(|(slot, disk)| match &order.asked {
            Asked::Serial(serial) => disk.serial.as_ref() == Some(serial) && possible(disk),
            Asked::Device(device) => {
                let path = if device == LINK { link.unwrap_or_default() } else { device };
                let by_id = disk.serial.as_ref().map(|s| format!("/dev/disk/by-id/x-{s}"));
                path == format!("/dev/{}", slot.name) || by_id.as_deref() == Some(path)
            }
            Asked::Smallest | Asked::Largest | Asked::Nothing => possible(disk),
        })
        .collect();
    let sizes = found.iter().map(|(_, disk)| disk.size_bytes);
    let extreme = match order.asked {
        Asked::Smallest => sizes.min(),
        Asked::Largest => sizes.max(),
        _ => None,
    };
    found.retain(|(_, disk)| extreme.is_none_or(|size_bytes| disk.size_bytes == size_bytes));
    let [(slot, disk)] = found[..] else { return None };
    let is_identified = match &order.asked {
        Asked::Serial(_) => true,
        // A kernel name, or a link of any other kind, leads to whichever disk has it at this boot.
        Asked::Device(device) => device.starts_with("/dev/disk/by-id/"),
        _ => false,
    };
    // Content that is not known is foreign, and the simulated one is.
    let may_overwrite = match (&order.asked, order.policy) {
        (Asked::Nothing | Asked::Smallest | Asked::Largest, _) => false,
        (_, Some(policy)) => policy == "wipe",
        (_, None) => is_identified,
    };
    let is_allowed = disk.obstacle.is_none()
        && (!disk.has_data || may_overwrite || ours == Some(slot.physical))
        && order.expected_serial.as_ref().is_none_or(|s| disk.serial.as_ref() == Some(s))
        && order.protected.as_ref().is_none_or(|s| disk.serial.as_ref() != Some(s));
    is_allowed.then_some(slot.physical)
}

/// coreos-installer: opens the path, writes, and opens the path again for the file system `boot`.
struct Fake<'a> {
    kernel: &'a Simulated,
    random: &'a mut Random,
    order: &'a Order,
    /// The disk that the agent chose.
    name: &'a str,
    /// Whether that disk was the same after the last run.
    is_unchanged: bool,
    violations: &'a mut Vec<String>,
}

impl Fake<'_> {
    /// Writes to the disk that a path leads to; returns it.
    fn write(&mut self, path: &str) -> Option<Slot> {
        let mut world = self.kernel.lock();
        let slot = world.at(path).cloned()?;
        if world.physicals[slot.physical].obstacle == Some(ObstacleKind::Structural) {
            return None;
        }
        let meant =
            |truth: &Truth, ours| meant(self.order, &truth.disks, truth.link.as_deref(), ours);
        let ours = Some(slot.physical).filter(|n| world.writes.contains_key(n));
        let first = world.truths.first().and_then(|truth| meant(truth, None));
        let last = world.truths.last().and_then(|truth| meant(truth, ours));
        if first != Some(slot.physical) || last != first {
            self.violations.push(format!("wrote {slot:?}, meant were {first:?} and {last:?}"));
        }
        world.write(slot.physical);
        Some(slot)
    }

    fn attempt(&mut self, path: &str) -> Result<(), (Code, bool)> {
        if percent(self.random, 15) {
            return Err((Code::ImageFetch, true));
        }
        let slot = self.write(path).ok_or((Code::TargetIo, false))?;
        let mut world = self.kernel.lock();
        world.pass(Moment::WhileWriting);
        let is_there = world.slots.contains(&slot);
        drop(world);
        if !is_there || self.write(path).is_none() {
            return Err((Code::TargetIo, false));
        }
        match self.random.below(5) {
            0 => Err((Code::ImageFetch, true)),
            1 => Err((Code::InstallerFailed, false)),
            _ => Ok(()),
        }
    }
}

impl Writer for Fake<'_> {
    fn name(&self) -> &'static str {
        "the writer"
    }

    fn run(&mut self, device: &str) -> Ran {
        let mut world = self.kernel.lock();
        if !world.is_as_reported(self.name) {
            self.violations.push("a run was started on a disk that had changed".into());
        }
        world.pass(Moment::BeforeWrite);
        drop(world);
        let outcome = self.attempt(device);
        let mut world = self.kernel.lock();
        world.pass(Moment::AfterWrite);
        self.is_unchanged = world.is_as_reported(self.name);
        drop(world);
        Ran {
            is_transient: outcome.is_err_and(|(_, is_transient)| is_transient),
            outcome: outcome.map_err(|(code, _)| Failure::new(code, "simulated")),
            end: End::Ended,
            log_tail: Vec::new(),
        }
    }
}

/// A watch that passes nothing on.
struct Nobody;

impl Watch for Nobody {
    fn stage(&self, _: Stage, _: State, _: Option<u8>, _: Option<&str>) {}
    fn note(&self, _: Mark) {}
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    n_cases: u64,
    n_events: u64,
    n_refused: u64,
    n_installed: u64,
    n_writes: u64,
    violations: Vec<String>,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.n_cases += other.n_cases;
        self.n_events += other.n_events;
        self.n_refused += other.n_refused;
        self.n_installed += other.n_installed;
        self.n_writes += other.n_writes;
        self.violations.extend(other.violations);
    }
}

/// A machine, an instruction, and what is going to happen.
fn world(random: &mut Random, keeps_held_names: bool) -> World {
    let has_diskseq = percent(random, 70);
    let mut world = World {
        keeps_held_names,
        has_diskseq,
        has_links_by_diskseq: has_diskseq && percent(random, 70),
        has_counters: percent(random, 80),
        ..World::default()
    };
    let n_disks = 1 + random.below(4);
    for n in 0..n_disks {
        world.physicals.push(physical(random, n));
        world.plug(n);
    }
    let linked = random.below(n_disks);
    world.link = Some(format!("/dev/{}", world.slots[linked].name));
    world.events = (0..random.below(4)).map(|_| event(random, n_disks)).collect();
    world
}

/// Runs one case as a job does it.
fn case(seed: u64, keeps_held_names: bool) -> Counts {
    let mut random = Random::new("", seed);
    let world = world(&mut random, keeps_held_names);
    let order = Order::new(&mut random, &world);
    let kernel = Simulated(Arc::new(Mutex::new(world)));
    let system = System::of(Arc::new(kernel.clone()), "/nonexistent".into())
        .with_clock(Arc::new(SimulatedClock(Mutex::new(Instant::now()))));
    let instruction = order.install().into();
    let selection = Selection {
        system: &system,
        reported: &[],
        order: &instruction,
        protect: &[],
        min_bytes: None,
    };
    let mut counts = Counts { n_cases: 1, ..Counts::default() };
    settle::wait(&system);
    let disks = selection.disks().unwrap();
    let outcome = selection.target(&disks).map(|target| {
        let mut world = kernel.lock();
        world.pass(Moment::Preflight);
        world.note_truth();
        drop(world);
        let mut fake = Fake {
            kernel: &kernel,
            random: &mut random,
            order: &order,
            name: &target.disk().name,
            is_unchanged: true,
            violations: &mut counts.violations,
        };
        let task = Task { target: &target, selection };
        let mut outcome = Outcome::default();
        let written = write(&task, &mut fake, &Nobody, &mut outcome);
        outcome.failure = written.err();
        if outcome.failure.is_none() && !fake.is_unchanged {
            fake.violations.push("the result names a disk that has changed".into());
        }
        kernel.lock().pass(Moment::BeforeProof);
        (target.disk().clone(), outcome)
    });
    let world = kernel.lock();
    counts.n_events = world.n_events;
    counts.n_writes = world.writes.values().sum();
    match outcome {
        Ok((named, written)) => judge(&world, &named, &written, &mut counts),
        Err(_) => counts.n_refused = 1,
    }
    let context = format!("seed {seed}: {order:?}");
    counts
        .violations
        .iter_mut()
        .for_each(|violation| *violation = format!("{context}: {violation}"));
    counts
}

/// Checks that the result is true of the disk that it names.
fn judge(world: &World, named: &Disk, written: &Outcome, counts: &mut Counts) {
    let held = world.truths[0].disks.iter().find(|(slot, _)| slot.name == named.name);
    let (slot, physical) = held.unwrap();
    let n_writes = world.writes.get(&slot.physical).copied().unwrap_or_default();
    let is_named = physical.serial == named.serial;
    let mut claim = |is_true: bool, what: &str| {
        if !is_true {
            counts.violations.push(format!("{what}: {written:?} {slot:?} {n_writes}"));
        }
    };
    claim(is_named, "the result names another disk");
    claim(
        (written.state == DiskState::Untouched) <= (n_writes == 0),
        "a disk that was written counts as untouched",
    );
    // The counters of a disk that is gone cannot be read.
    let is_counted = world.has_counters && world.slots.contains(slot);
    claim(
        !(is_counted && written.state != DiskState::Untouched && n_writes == 0),
        "a disk that was not written counts as written",
    );
    claim(written.failure.is_some() || n_writes >= 2, "installed without a write");
    match written.failure {
        None => counts.n_installed = 1,
        Some(_) => counts.n_refused = 1,
    }
}

fn run(seeds: std::ops::Range<u64>, keeps_held_names: bool) -> Counts {
    let middle = u64::midpoint(seeds.start, seeds.end);
    let all = |seeds: std::ops::Range<u64>| {
        let mut counts = Counts::default();
        seeds.for_each(|seed| counts.add(case(seed, keeps_held_names)));
        counts
    };
    std::thread::scope(|scope| {
        let half = scope.spawn(|| all(seeds.start..middle));
        let mut counts = all(middle..seeds.end);
        counts.add(half.join().unwrap());
        counts
    })
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts show what was tried")]
fn nothing_is_written_but_the_disk_that_the_instruction_means() {
    let started = Instant::now();
    let counts = run(0..n_cases(), true);
    let Counts { n_cases, n_events, n_refused, n_installed, n_writes, violations } = &counts;
    eprintln!(
        "{n_cases} cases, {n_events} events: {n_refused} refused or failed, {n_installed} installed, \
         {n_writes} writes, {} of them wrong; {:.1} s",
        violations.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(violations.is_empty(), "{}", violations[..violations.len().min(5)].join("\n"));
    // The cases are no empty exercise.
    assert_eq!(*n_cases, self::n_cases());
    let is_varied =
        n_events * 2 > *n_cases && n_installed * 20 > *n_cases && n_refused * 5 > *n_cases;
    assert!(is_varied, "{counts:?}");
}

/// Without the property of Linux on which the agent relies, its checks cannot suffice, and the test notices.
#[test]
fn a_kernel_that_gives_away_names_of_held_disks_is_noticed() {
    let counts = run(0..1_000, false);
    assert!(!counts.violations.is_empty(), "{counts:?}");
}
