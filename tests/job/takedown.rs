//! Installs over a disk that something active is built on.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use probes::block::{Disk, ObstacleKind};
use probes::machine::Source;
use run_coreos_installer::act::System;
use run_coreos_installer::act::system::{Handle, Kernel};
use run_coreos_installer::act::takedown::Step;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::changed::OpenFile;
use super::install::Job;
use super::mock::assert_says;

/// A kernel whose files lie in a folder. It ends the use of swap space, and nothing else.
#[derive(Debug)]
struct Folder(PathBuf);

impl Kernel for Folder {
    fn source(&self) -> io::Result<Source> {
        Source::captured(&self.0)
    }
    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        Ok(None)
    }
    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>> {
        Ok(Arc::new(OpenFile(File::open(device)?)))
    }
    fn number_of(&self, _: &str) -> io::Result<Option<String>> {
        Ok(None)
    }
    fn resolve(&self, _: &str) -> Option<String> {
        None
    }
    fn take_down(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::SwapOff { .. } => fs::write(self.0.join("proc/swaps"), "Filename Type\n"),
            _ => Err(io::Error::other("the array is frozen")),
        }
    }
}

#[test]
fn take_down_that_fails_half_way_is_not_reported_as_if_nothing_had_happened() {
    let mut job = Job::new(json!({"disk": {"hints": {"serial": "SERIAL-sda"}}}));
    let machine = &mut job.machine;
    let write = |path: &str, text: &str| {
        let path = machine.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let md = "sys/devices/virtual/block/md0";
    write(&format!("{md}/dev"), "9:0\n");
    write(&format!("{md}/md/level"), "raid1\n");
    write(&format!("{md}/slaves/sda/x"), "");
    write("proc/swaps", "Filename Type\n/dev/md0 partition 1 0 -2\n");
    let holders = machine.root.join("sys/devices/sda/holders");
    fs::create_dir_all(&holders).unwrap();
    std::os::unix::fs::symlink("../../virtual/block/md0", holders.join("md0")).unwrap();
    machine.settings.site.system =
        System::of(Arc::new(Folder(machine.root.clone())), machine.root.clone());
    let disk = &mut machine.collected.disks[0];
    disk.obstacles = vec![ObstacleKind::Active.because("in use: sda is held by md0")];
    disk.eligible = false;
    let step = "ending the use of /dev/md0 as swap space";
    let expected = json!({"code": "DISK_BUSY", "disk_state": "untouched", "taken_down": [step]});
    let result = job.ends(ExitStatus::Untouched, &expected);
    assert_says(&result["message"], &["the array is frozen"]);
    let ending = format!("the disk was not written, but before: {step}");
    assert!(result["message"].as_str().unwrap().ends_with(&ending));
    assert!(job.machine.is_untouched("sda"));
}
