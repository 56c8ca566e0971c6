//! The clean step `erase_devices_metadata`: erases partition tables and signatures of the disks that are named.
//!
//! Only disks that the configuration (`clean-disk`) or the node's root device hints name or, if they name none, the one that
//! an install without hints would choose: the only one, blank or with an earlier `CoreOS`. Each goes through the same choice
//! as an install, so a disk that is protected, in use, part of something larger or the live medium is refused. The step
//! fails if one disk was not erased: Ironic would treat the node as clean.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use formats::guid::Guid;
use probes::block::{Disk, Obstacle, ObstacleKind, Partition};
use serde_json::{Map, Value, json};
use tracing::info;

use super::instance::root_device;
use super::steps::StepOrder;
use crate::act::erase::{Erasure, replace};
use crate::act::hints::from_option;
use crate::act::say::say;
use crate::act::selection::Selection;
use crate::act::target::Target;
use crate::act::{Code, DiskChoice, ExistingDataPolicy, Order};
use crate::act::{Failure, Site, describe, preflight, takedown};
use crate::ask::{Unanswered, ask_within};
use crate::job::Node;
use crate::signals::Stop;

/// Length erased at both ends of a disk and of each partition: the signatures of file systems, arrays and volumes lie
/// there.
const END_BYTES: u64 = 1 << 20;
/// Most disks that an advice lists.
const MAX_LINES: usize = 8;
/// Time limit for erasing one disk.
const LIMIT: Duration = Duration::from_mins(5);
/// Time limit for the kernel to forget the partitions.
const FORGET_LIMIT: Duration = Duration::from_secs(15);
const FORGET_POLL: Duration = Duration::from_millis(500);

/// The inputs of an erasure, apart from the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) node: &'a Node,
    /// The disks of the report.
    pub(super) reported: &'a [Disk],
    /// The disks that the configuration names.
    pub(super) clean_disks: &'a [String],
    /// Those that have not ended.
    pub(super) erasures: &'a Erasures,
}

/// Erases the disks that are named. Returns which ones were erased and which were not meant.
///
/// # Errors
/// One was not erased; the others may have been.
pub(super) fn erase(order: &StepOrder, around: &Surroundings<'_>) -> Result<Value, Failure> {
    let mut choices = named(order, around.clean_disks)?;
    let is_named = !choices.is_empty();
    if !is_named {
        choices.push(DiskChoice::default());
    }
    let (judged, mut failed) = judged(choices, around);
    let mut erased = Vec::new();
    let given_up = names(judged.iter().map(|(_, disk)| disk));
    for (target, disk) in &judged {
        match erase_one(target, disk, &given_up, around) {
            Ok(text) => erased.push(text),
            Err(failure) => failed.push(failure),
        }
    }
    let Some(first) = failed.first() else {
        info!("erased the metadata of {}", erased.join("; "));
        return Ok(json!({"erased": erased}));
    };
    let done = match erased.join("; ") {
        none if none.is_empty() => "nothing was erased".to_owned(),
        erased => format!("erased: {erased}"),
    };
    let others: String =
        failed[1..].iter().flat_map(|failure| ["; ".to_owned(), failure.to_string()]).collect();
    let message = say![first.message.clone(), others, "; ", done];
    let is_choice = matches!(
        first.code,
        Code::DiskNone | Code::DiskAmbiguous | Code::DiskNotEligible | Code::ExistingData
    );
    let given = first.advice.clone().filter(|_| is_named || !is_choice);
    let advice = given.unwrap_or_else(|| name_disks(around.reported).into());
    Err(Failure::new(first.code, message).advise(advice))
}

/// Advice for a node without a disk that is named: the argument that names its own disks, to choose from. One on a fabric
/// may be another host's.
fn name_disks(disks: &[Disk]) -> String {
    let is_structural = |obstacle: &Obstacle| obstacle.kind == ObstacleKind::Structural;
    let is_own = |disk: &&Disk| !disk.is_on_fabric && !disk.obstacles.iter().any(is_structural);
    // A comma would begin the next disk, and a blank the next argument.
    let is_plain = |text: &&String| text.chars().all(|c| c.is_ascii_graphic() && c != ',');
    let stable = |disk: &Disk| {
        let serial = disk.serial.as_ref().filter(is_plain).map(|serial| format!("serial={serial}"));
        disk.by_id.first().or(disk.by_path.as_ref()).filter(is_plain).cloned().or(serial)
    };
    let paths: Vec<String> =
        disks.iter().filter(is_own).filter_map(stable).take(MAX_LINES).collect();
    let paths = if paths.is_empty() { "DISK,DISK".to_owned() } else { paths.join(",") };
    format!(
        "name the disks to be erased in a kernel argument of the live image, e.g. of these: rci.clean-disk={paths}; or set \
         the node's root device: \
         openstack baremetal node set NODE --property root_device='{{\"serial\": \"SERIAL\"}}'; to make nodes available \
         without cleaning, set automated_clean of the node to false"
    )
}

/// The disks that are named, each as a choice of exactly one.
fn named(order: &StepOrder, clean_disks: &[String]) -> Result<Vec<DiskChoice>, Failure> {
    let hinted =
        |hints: Map<String, Value>| DiskChoice { hints: Some(hints), ..DiskChoice::default() };
    let mut choices = Vec::new();
    for entry in clean_disks {
        choices.push(if entry.starts_with("/dev/") {
            DiskChoice { device: Some(entry.clone()), ..DiskChoice::default() }
        } else {
            let hints = from_option(std::slice::from_ref(entry)).map_err(|why| {
                Failure::new(Code::Config, why.replace("--hints", "clean-disk"))
                    .advise("name each disk by a path below /dev, or by hints such as serial=S1")
            })?;
            hinted(hints)
        });
    }
    choices.extend(root_device(&order.node)?.map(|hints| hinted(hints.clone())));
    Ok(choices)
}

/// The choice as an order. Without a name it is the disk that an install without hints may overwrite.
fn order_of(choice: DiskChoice, site: &Site) -> Order {
    let is_named = choice != DiskChoice::default();
    Order {
        disk: Some(choice),
        existing_data: is_named.then_some(ExistingDataPolicy::Wipe),
        protect_missing: site.protect_missing,
        ..Order::default()
    }
}

/// The disks that may be erased, with their facts of now, and why others may not. What spans some of them is given up with
/// all of them, so each is judged before the first is erased, and again without those that stay.
fn judged(
    mut choices: Vec<DiskChoice>,
    around: &Surroundings<'_>,
) -> (Vec<(Target, Disk)>, Vec<Failure>) {
    let mut failed = Vec::new();
    loop {
        let meant = choices.iter().filter_map(|choice| {
            let order = order_of(choice.clone(), &around.node.settings.site);
            let decided = selection(&order, around).decide(around.reported);
            decided.map_or_else(|undecided| undecided.disk, |decision| Some(decision.disk))
        });
        let given_up = names(meant);
        let (n_choices, mut found) = (choices.len(), Vec::<(Target, Disk)>::new());
        choices.retain(|choice| match judge(choice.clone(), &given_up, around) {
            Ok(one) if found.iter().any(|(_, disk)| disk.name == one.1.name) => true,
            Ok(one) => {
                found.push(one);
                true
            }
            Err(failure) => {
                failed.push(failure);
                false
            }
        });
        if choices.len() == n_choices {
            return (found, failed);
        }
    }
}

fn selection<'a>(order: &'a Order, around: &'a Surroundings<'_>) -> Selection<'a> {
    let Site { system, protect, .. } = &around.node.settings.site;
    Selection { system, reported: around.reported, order, protect, min_bytes: None }
}

/// Judges one disk by the facts of now, not by those of the report, which may be old.
fn judge(
    choice: DiskChoice,
    given_up: &[String],
    around: &Surroundings<'_>,
) -> Result<(Target, Disk), Failure> {
    let site = &around.node.settings.site;
    let order = Order { given_up: given_up.to_vec(), ..order_of(choice, site) };
    let selection = selection(&order, around);
    let target = selection.target(around.reported).map_err(|(_, failure)| failure)?;
    let disks = selection.confirm(&target, false)?;
    let disk = disks.into_iter().find(|disk| disk.name == target.disk().name);
    let disk = disk.unwrap_or_else(|| target.disk().clone());
    preflight::check_use(&disk, &site.system, given_up)?;
    Ok((target, disk))
}

/// The kernel names of disks and of their partitions.
fn names<'d>(disks: impl Iterator<Item = &'d Disk>) -> Vec<String> {
    let of = |disk: &Disk| {
        let partitions = disk.partitions.iter().map(|part| part.name.clone());
        partitions.chain([disk.name.clone()]).collect::<Vec<_>>()
    };
    disks.flat_map(of).collect()
}

fn erase_one(
    target: &Target,
    disk: &Disk,
    given_up: &[String],
    around: &Surroundings<'_>,
) -> Result<String, Failure> {
    let system = &around.node.settings.site.system;
    // The disks before it took a moment.
    preflight::check_use(disk, system, given_up)?;
    if takedown::is_needed(disk) {
        takedown::take_down(disk, system, given_up, &mut |_| ())?;
    }
    wipe(target, disk, around.erasures)?;
    let text = describe(disk);
    is_blank(disk, around)?;
    info!("erased the metadata of {text}");
    Ok(text)
}

/// Overwrites the ends of the disk and of its partitions, and the partition tables.
fn wipe(target: &Target, disk: &Disk, erasures: &Erasures) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::new(Code::TargetIo, format!("erasing {}: {why}", describe(disk)))
            .advise("see the kernel log; replace the disk if it fails again")
    };
    let size_bytes = disk.size_bytes.ok_or_else(|| failed("its size is unknown".into()))?;
    let sector_bytes = disk.logical_block_bytes.map_or(512, u64::from);
    let file = target.exclusive()?;
    let span = |part: &Partition| Some((part.start_bytes?, part.size_bytes?));
    let spans: Option<Vec<_>> = disk.partitions.iter().map(span).collect();
    let spans = spans.ok_or_else(|| failed("the place of a partition is unknown".into()))?;
    let work = move || -> Result<(), String> {
        // The tables last: until then they show where the partitions were, and where a backup of them is.
        for (start, n_bytes) in spans {
            wipe_ends(&file, start, n_bytes.min(size_bytes.saturating_sub(start)))?;
        }
        Erasure { file: &file, size_bytes, sector_bytes, keep: &[] }.run(Guid([0; 16]))?;
        wipe_ends(&file, 0, size_bytes)
    };
    // A disk that does not respond must not keep the agent from reporting that.
    let erased = erasures.run(LIMIT, target.system().stop(), work);
    erased.map_err(|why| failed(why.to_string()))?.map_err(failed)
}

/// Erasures that have not ended, also those whose time limit has passed: nothing can end a write to a disk that does not
/// respond, and it may be carried out later, over an install. Each holds a copy until it ends, also by a panic.
#[derive(Debug, Default)]
pub(super) struct Erasures(Arc<()>);

impl Erasures {
    /// Does `work` within a limit; until it has ended, [`Erasures::check_none_runs`] fails.
    fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        stop: &Stop,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let running = Arc::clone(&self.0);
        ask_within("erase", limit, stop, move || {
            let done = work();
            drop(running);
            done
        })
    }

    /// Checks that no erasure of an earlier step may still write.
    ///
    /// # Errors
    /// One that was given up has not ended.
    pub(super) fn check_none_runs(&self) -> Result<(), Failure> {
        if Arc::strong_count(&self.0) == 1 {
            return Ok(());
        }
        Err(Failure::new(
            Code::DiskBusy,
            "a disk that was to be erased does not respond, and may still be written",
        )
        .advise("see the kernel log; power-cycle the node through Ironic, or replace the disk"))
    }
}

/// Overwrites both ends of a span with zeros and reads them back.
fn wipe_ends(file: &File, start: u64, n_bytes: u64) -> Result<(), String> {
    let length = n_bytes.min(END_BYTES);
    let zeros = vec![0; usize::try_from(length).unwrap_or_default()];
    replace(file, &[start, start + n_bytes - length].map(|at| (at, zeros.as_slice())))
}

/// Checks that the kernel sees neither partitions nor signatures any more. udev has it read the table again when the last
/// writer closes the disk.
fn is_blank(disk: &Disk, around: &Surroundings<'_>) -> Result<(), Failure> {
    let (system, clock) = (&around.node.settings.site.system, &around.node.clock);
    let started = clock.now();
    let shows_nothing = |found: &Disk| {
        found.partitions.is_empty() && found.filesystem.is_none() && found.partition_table.is_none()
    };
    loop {
        let failure = match system.disks() {
            // A system that never collects facts again has none that differ from what was read back.
            Ok(None) => return Ok(()),
            Ok(Some(disks)) => match disks.iter().find(|found| found.name == disk.name) {
                None => {
                    let what = format!("{} is gone", describe(disk));
                    return Err(Failure::new(Code::DiskChanged, what)
                        .advise("see the kernel log; clean the node again"));
                }
                Some(found) if shows_nothing(found) => return Ok(()),
                Some(_) => {
                    let what = "was erased, but the kernel still shows its partitions";
                    Failure::new(Code::DiskBusy, format!("{} {what}", describe(disk))).advise(
                        "clean the node again after a reboot; something may keep a partition open",
                    )
                }
            },
            Err(why) => {
                let what = format!("whether {} is blank is unknown: {why}", describe(disk));
                Failure::new(Code::TargetIo, what).advise("clean the node again")
            }
        };
        let is_late = clock.now().saturating_duration_since(started) > FORGET_LIMIT;
        if is_late || system.stop().is_stopped() {
            return Err(failure);
        }
        clock.sleep(FORGET_POLL, system.stop());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::engines::ironic::steps::Kind;

    fn order(properties: &Value) -> StepOrder {
        let node = json!({"properties": properties, "instance_info": {}});
        StepOrder { kind: Kind::Clean, step: json!({}), node, mismatch: None }
    }

    #[test]
    fn only_a_named_disk_may_lose_any_data_and_the_advice_names_the_nodes_own_disks() {
        let disk = |name: &str| Disk { device: format!("/dev/{name}"), ..Disk::default() };
        let (mut by_id, mut by_path, mut optical) = (disk("sda"), disk("sdb"), disk("sr0"));
        by_id.by_id.push("/dev/disk/by-id/a".to_owned());
        by_path.by_path = Some("/dev/disk/by-path/b".to_owned());
        let lun = Disk { is_on_fabric: true, ..by_id.clone() };
        optical.obstacles.push(ObstacleKind::Structural.because("an optical drive"));
        let serial = Disk { serial: Some("S1".to_owned()), ..disk("sdc") };
        let line = ": rci.clean-disk=/dev/disk/by-id/a,/dev/disk/by-path/b,serial=S1; or";
        for (disks, line) in [
            (vec![by_id, optical.clone(), lun, by_path, serial, disk("sde")], line),
            (vec![optical], ": rci.clean-disk=DISK,DISK; or"),
        ] {
            let advice = name_disks(&disks);
            assert!(advice.contains(line), "{advice}");
            assert!(advice.contains(r#"root_device='{"serial": "SERIAL"}'"#), "{advice}");
        }
        assert_eq!(super::named(&order(&json!({})), &[]).unwrap(), []);
        let hinted = order(&json!({"root_device": {"wwn": "0x5"}}));
        let named = ["/dev/disk/by-id/x".to_owned(), "serial=S1".to_owned()];
        let found = super::named(&hinted, &named).unwrap();
        assert_eq!(found[0].device.as_deref(), Some("/dev/disk/by-id/x"));
        assert_eq!(found[1].hints.as_ref().unwrap()["serial"], "S1");
        assert_eq!(found[2].hints.as_ref().unwrap()["wwn"], "0x5");
        assert!(super::named(&hinted, &["sda".to_owned()]).is_err());
        let policy = |choice| order_of(choice, &Site::default()).existing_data;
        assert_eq!(policy(found[0].clone()), Some(ExistingDataPolicy::Wipe));
        assert_eq!(policy(DiskChoice::default()), None, "the policy of an install without hints");
    }

    #[test]
    fn nothing_begins_before_an_erasure_that_was_given_up_has_ended() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let limit = Duration::from_millis(50);
        let erasures = Erasures::default();
        let late = erasures.run(limit, &Stop::default(), move || ended.recv().ok());
        assert_eq!(late, Err(Unanswered::Late(limit)));
        assert_eq!(erasures.check_none_runs().unwrap_err().code, Code::DiskBusy);
        end.send(()).unwrap();
        let started = std::time::Instant::now();
        while erasures.check_none_runs().is_err() {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn both_ends_of_a_span_are_zero_and_nothing_else() {
        let file = tempfile::tempfile().unwrap();
        let end = usize::try_from(END_BYTES).unwrap();
        let mut bytes = vec![7; 8 * end];
        file.write_all_at(&bytes, 0).unwrap();
        wipe_ends(&file, END_BYTES, 5 * END_BYTES).unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        for (from, to, expected) in [(0, 1, 7), (1, 2, 0), (2, 5, 7), (5, 6, 0), (6, 8, 7)] {
            let part = &bytes[from * end..to * end];
            assert!(part.iter().all(|byte| *byte == expected), "from {from} to {to}");
        }
        // A span shorter than what is erased at each end.
        wipe_ends(&file, 0, 512).unwrap();
    }
}
