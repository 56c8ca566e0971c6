//! Tests taking down everything active on a disk, on simulated kernels.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use probes::block::ActiveDevice;
use probes::machine::Source;

use super::*;
use crate::act::system::{Handle, Kernel};
use crate::act::testing::{partition, texts};
use crate::signals::Stop;

/// A kernel whose files lie in a folder, where each step removes what it takes down.
#[derive(Debug, Default)]
struct Folder {
    root: PathBuf,
    steps: Mutex<Vec<Step>>,
    /// Number of tries that fail because the device is busy.
    n_busy: Mutex<u32>,
    /// After how many steps one fails, and after how many one hangs.
    fails_after: Option<usize>,
    hangs_after: Option<usize>,
    /// Number of times that udev was kept from starting anything.
    n_kept: Mutex<u32>,
    /// Time that udev takes to notice that nothing is to be started.
    delay: Duration,
    /// True if a busy device is gone after the first try, and another disk has its name.
    is_replaced: bool,
}

impl Kernel for Folder {
    fn source(&self) -> io::Result<Source> {
        Source::captured(&self.root)
    }
    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        Ok(None)
    }
    fn open(&self, _: &str) -> io::Result<Arc<dyn Handle>> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn number_of(&self, _: &str) -> io::Result<Option<String>> {
        Ok(None)
    }
    fn resolve(&self, _: &str) -> Option<String> {
        None
    }
    fn keep_down(&self) -> io::Result<Duration> {
        *self.n_kept.lock().unwrap() += 1;
        Ok(self.delay)
    }
    fn take_down(&self, step: &Step) -> io::Result<()> {
        let n_steps = Some(self.steps.lock().unwrap().len());
        if n_steps == self.hangs_after {
            std::thread::sleep(Duration::from_mins(10));
        }
        if n_steps == self.fails_after {
            return Err(io::Error::other("refused by the test"));
        }
        let mut n_busy = self.n_busy.lock().unwrap();
        if *n_busy > 0 {
            *n_busy -= 1;
            if self.is_replaced {
                let md = "sys/devices/virtual/block/md0";
                write(&self.root, &format!("{md}/slaves/sdb1/x"), "");
            }
            return Err(io::Error::from_raw_os_error(nix::errno::Errno::EBUSY as i32));
        }
        let remove = |path: &str| std::fs::remove_dir_all(self.root.join(path)).unwrap();
        match step {
            Step::SwapOff { .. } => write(&self.root, "proc/swaps", "Filename Type\n"),
            Step::RemoveMapping { .. } => remove("sys/devices/virtual/block/md0/holders"),
            Step::StopArray { .. } => remove("sys/devices/sda/sda1/holders"),
        }
        self.steps.lock().unwrap().push(step.clone());
        Ok(())
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}

/// A disk whose partition is in an array, with a volume on it that is swap space.
struct Setup {
    kernel: Arc<Folder>,
    system: System,
    disk: Disk,
    _dir: tempfile::TempDir,
}

impl Setup {
    /// The setup with a kernel of this behaviour.
    fn new(kernel: Folder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        link(&root, "sys/dev/block/8:0", "../../devices/sda");
        let md = "sys/devices/virtual/block/md0";
        let dm = "sys/devices/virtual/block/dm-0";
        for (path, text) in [
            ("sys/devices/sda/dev", "8:0\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/devices/sda/sda1/dev", "8:1\n"),
            (&format!("{md}/dev"), "9:0\n"),
            (&format!("{md}/md/level"), "raid1\n"),
            (&format!("{md}/slaves/sda1/x"), ""),
            (&format!("{dm}/dev"), "253:0\n"),
            (&format!("{dm}/dm/uuid"), "LVM-x\n"),
            (&format!("{dm}/slaves/md0/x"), ""),
            ("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs none rw\n"),
            ("proc/swaps", "Filename Type\n/dev/dm-0 partition 1 0 -2\n"),
        ] {
            write(&root, path, text);
        }
        link(&root, "sys/devices/sda/sda1/holders/md0", "../../../virtual/block/md0");
        link(&root, &format!("{md}/holders/dm-0"), "../../dm-0");
        let disk = Disk {
            name: "sda".into(),
            device: "/dev/null".into(),
            device_number: Some("8:0".into()),
            obstacles: vec![ObstacleKind::Active.because("in use: sda1 is held by md0")],
            ..Disk::default()
        };
        let kernel = Arc::new(Folder { root: root.clone(), ..kernel });
        let system = System::of(Arc::clone(&kernel) as Arc<dyn Kernel>, root);
        Self { kernel, system, disk, _dir: dir }
    }

    /// Takes everything down; the steps that were done, and the outcome.
    fn take_down(&self) -> (Vec<String>, Result<(), Failure>) {
        let mut done = Vec::new();
        let outcome = take_down(&self.disk, &self.system, &[], &mut |step| done.push(step));
        (done, outcome)
    }

    /// The message with which a take-down ends before its first step.
    fn refusal(&self) -> String {
        let (done, outcome) = self.take_down();
        let failure = outcome.unwrap_err();
        assert_eq!((failure.code, done.len(), self.n_steps()), (Code::DiskBusy, 0, 0));
        failure.to_string()
    }

    fn n_steps(&self) -> usize {
        self.kernel.steps.lock().unwrap().len()
    }
}

#[test]
fn swap_space_mapping_and_array_are_taken_down_from_the_top_and_checked_gone() {
    let setup = Setup::new(Folder { n_busy: Mutex::new(3), ..Folder::default() });
    assert!(is_needed(&setup.disk));
    assert_eq!(check(&setup.disk, &setup.system, &[]), Ok(()));
    assert_eq!(setup.n_steps(), 0, "a check changes nothing");
    let done = texts(&[
        "ending the use of /dev/dm-0 as swap space",
        "removing the mapping dm-0",
        "stopping the array /dev/md0",
    ]);
    assert_eq!(setup.take_down(), (done, Ok(())));
    let uuid = Some("LVM-x".to_owned());
    let step = Step::RemoveMapping { name: "dm-0".into(), number: "253:0".into(), uuid };
    assert_eq!(setup.kernel.steps.lock().unwrap()[1], step);
    assert_eq!(setup.take_down(), (vec![], Ok(())));
}

#[test]
fn array_that_spans_another_disk_is_left_alone_and_that_disk_is_named() {
    let setup = Setup::new(Folder::default());
    write(&setup.kernel.root, "sys/devices/virtual/block/md0/slaves/sdb1/x", "");
    let checked = check(&setup.disk, &setup.system, &[]).unwrap_err();
    assert_eq!(checked.code, Code::DiskBusy);
    for message in [checked.to_string(), setup.refusal()] {
        assert!(message.contains("md0 is also built on sdb1"), "{message}");
    }
}

#[test]
fn mounted_volume_is_left_alone() {
    let setup = Setup::new(Folder::default());
    let mount = "1 0 253:0 / /data rw - xfs /dev/dm-0 rw\n";
    write(&setup.kernel.root, "proc/self/mountinfo", mount);
    assert!(setup.refusal().contains("dm-0 is mounted at /data"), "{}", setup.refusal());
}

#[test]
fn device_that_stays_busy_ends_the_take_down() {
    let setup = Setup::new(Folder { n_busy: Mutex::new(1000), ..Folder::default() });
    assert!(setup.refusal().contains("swap space"));
}

#[test]
fn busy_device_is_judged_again_before_the_next_try() {
    let n_busy = Mutex::new(3);
    let setup = Setup::new(Folder { n_busy, is_replaced: true, ..Folder::default() });
    assert!(setup.refusal().contains("md0 is also built on sdb1"));
}

#[test]
fn steps_that_were_done_before_a_failure_are_listed() {
    let setup = Setup::new(Folder { fails_after: Some(2), ..Folder::default() });
    let (done, outcome) = setup.take_down();
    let failure = outcome.unwrap_err().to_string();
    assert!(failure.contains("stopping the array /dev/md0: refused by the test"), "{failure}");
    assert_eq!(done, ["ending the use of /dev/dm-0 as swap space", "removing the mapping dm-0"]);
}

#[test]
fn signal_ends_a_take_down_within_five_seconds() {
    for kernel in [
        // A step that hangs, and the wait for udev after the first step.
        Folder { hangs_after: Some(1), ..Folder::default() },
        Folder { delay: Duration::from_mins(1), ..Folder::default() },
    ] {
        let stop = Stop::default();
        let mut setup = Setup::new(kernel);
        setup.system = setup.system.until(&stop);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            stop.stop();
        });
        let started = Instant::now();
        let (done, outcome) = setup.take_down();
        assert_eq!((outcome.unwrap_err().code, done.len()), (Code::Interrupted, 1));
        assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    }
}

#[test]
fn device_of_an_unknown_kind_is_never_taken_down() {
    let device = |kind| ActiveDevice { name: "x0".into(), number: "250:0".into(), kind };
    let stack = |kind| CurrentStack { devices: vec![device(kind)], ..CurrentStack::default() };
    let error = step_of(&stack(ActiveKind::Other)).unwrap_err();
    assert!(error.contains("x0, which cannot be taken down"), "{error}");
    let step = step_of(&stack(ActiveKind::Array)).unwrap().unwrap();
    assert_eq!(step, Step::StopArray { path: "/dev/x0".into(), number: "250:0".into() });
}

#[test]
fn udev_is_kept_from_inactive_members_and_left_alone_on_other_disks() {
    let setup = Setup::new(Folder::default());
    let with =
        |kind: &str| Disk { partitions: vec![partition("sda", 1, "", kind)], ..Disk::default() };
    for (kind, n_kept) in [("xfs", 0), ("linux_raid_member", 1), ("LVM2_member", 2)] {
        keep_inactive(&with(kind), &setup.system).unwrap();
        assert_eq!(*setup.kernel.n_kept.lock().unwrap(), n_kept, "{kind}");
    }
}
