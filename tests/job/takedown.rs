//! Installs over a disk that something active is built on.

use std::fs;

use probes::block::ObstacleKind;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::changed::Changing;
use super::install::Job;
use super::mock::assert_says;

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
    machine.settings.site.system = Changing::system(machine, None);
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
