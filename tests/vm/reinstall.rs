//! Installs on disks that hold something: active volumes, an earlier CoreOS, another disk's boot file system.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts::Artifact;
use crate::disk::{Disk, DiskKind, GIB};
use crate::guest::EMERGENCY;
use crate::install::{LIVE, check, check_rebooted, instruction, live_config_of, nonce, start_lab};
use crate::job::digest;
use crate::machine::Machine;
use crate::template::{restore, restore_live};

/// A RAID 1 of one disk, a volume group on it with an active volume that is mounted nowhere, and swap on a partition. At
/// the end of the disk lies the superblock of an older array, which the image does not reach.
const VOLUMES_ON_THE_TARGET: &str = "#!/bin/sh -e
modprobe raid1
modprobe dm-mod
disk=/dev/disk/by-id/virtio-TARGET-0
last=$(($(blockdev --getsz $disk) / 128 - 1))
mdadm --create /dev/md9 --run --metadata=0.90 --level=1 --raid-devices=2 $disk missing
udevadm settle
mdadm --stop /dev/md9
dd if=$disk of=/run/superblock bs=64k skip=$last count=1
mdadm --zero-superblock $disk
printf 'label: gpt\\nsize=1GiB\\nsize=256MiB\\n' | sfdisk -q /dev/disk/by-id/virtio-TARGET-0
udevadm settle
mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 /dev/disk/by-id/virtio-TARGET-0-part1 missing
pvcreate -q /dev/md0
vgcreate -q old /dev/md0
lvcreate -q -y -L 64M -n data old
mkfs.ext4 -q -L precious /dev/old/data
dd if=/run/superblock of=$disk bs=64k seek=$last conv=notrunc,fsync
udevadm settle
";

/// What libblkid, and so udev, finds on a disk outside of its partitions.
fn whole_disk_signatures(disk: &Path) -> Result<String> {
    let output = Command::new("wipefs").args(["--no-act", "--noheadings"]).arg(disk).output()?;
    ensure!(output.status.success(), "wipefs: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn active_volumes_on_the_named_disk_are_taken_down_and_it_is_installed() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    order["install"]["disk"] = json!({"device": "/dev/disk/by-id/virtio-TARGET-0"});
    order["install"]["existing_data"] = json!("wipe");
    let lab = start_lab("reinstall_volumes", &proof, &order, "")?;
    let live = restore_live(&lab, &Machine::bare(2048), VOLUMES_ON_THE_TARGET)?;
    let result = check_rebooted(live, &lab)?;
    check_existing(&result, &["linux_raid_member", "held by md0", "held by dm-0"])?;
    // mdadm of the installed system would start the old array on the whole disk.
    let erased = result["erased"].to_string();
    ensure!(erased.contains("linux_raid_member at byte"), "erased: {erased}");
    let left = whole_disk_signatures(&lab.folder.join("target.raw"))?;
    ensure!(left.contains("gpt") && !left.contains("raid"), "the disk still contains {left}");
    Ok(())
}

#[test]
fn active_volumes_on_a_disk_that_nobody_named_are_left_alone() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    order["on_refusal"] = json!("stop");
    let lab = start_lab("reinstall_unnamed", &proof, &order, "")?;
    let mut live = restore_live(&lab, &Machine::bare(2048), VOLUMES_ON_THE_TARGET)?;
    let result = lab.wait_for("result", LIVE, |_| true)?;
    live.wait_for(EMERGENCY)?;
    let left = whole_disk_signatures(&lab.folder.join("target.raw"))?;
    ensure!(left.contains("linux_raid_member"), "the disk contains {left}");
    check_refused(&result)
}

/// Checks that nothing was written.
fn check_refused(result: &Value) -> Result<()> {
    check(result, &json!({"outcome": "refused", "disk_state": "untouched"}))
}

/// Checks that the result names these parts of what the disk contained.
fn check_existing(result: &Value, parts: &[&str]) -> Result<()> {
    let found = result["existing_data"].to_string();
    for part in parts {
        ensure!(found.contains(part), "the result names no {part} in {found}");
    }
    Ok(())
}

/// A second virtio disk.
fn second_disk() -> Disk {
    Disk { id: "second", kind: DiskKind::Virtio { serial: "SECOND-0" }, ..Machine::target_disk() }
}

#[test]
fn a_disk_with_an_earlier_install_is_installed_again_once_and_a_second_disk_is_refused()
-> Result<()> {
    let proof = nonce()?;
    let image = instruction(&proof, Artifact::IMAGE_4096)?;
    let size = |disk: Disk| Disk { sector_bytes: 4096, size_bytes: GIB, ..disk };
    let order = |serial: &str| {
        let mut order = image.clone();
        order["install"]["disk"] = json!({"hints": {"serial": serial}});
        order["on_refusal"] = json!("stop");
        order["request_id"] = json!("the-same");
        order
    };
    let start = |test: &str, disks: Vec<Disk>, serial: &str, from: Option<&Path>| {
        // A VIM that forgets each install.
        let lab = start_lab(test, &proof, &order(serial), "--after-install install")?;
        if let Some(from) = from {
            std::fs::rename(from.join("target.raw"), lab.folder.join("target.raw"))
                .context("taking over the installed disk")?;
        }
        let live = restore_live(&lab, &Machine::plain(2048, disks), "")?;
        Ok::<_, anyhow::Error>((lab, live))
    };
    let target = || size(Machine::target_disk());

    let (first, live) = start("reinstall_4096", vec![target()], "TARGET-0", None)?;
    check_rebooted(live, &first)?;

    let disks = vec![target(), size(second_disk())];
    let (second, mut live) = start("reinstall_second", disks, "SECOND-0", Some(&first.folder))?;
    let result = second.wait_for("result", LIVE, |_| true)?;
    live.wait_for(EMERGENCY)?;
    check_refused(&result)?;
    let says = result["message"].as_str().unwrap_or_default();
    ensure!(says.contains("/dev/vda") && says.contains("boot"), "the result says {says:?}");
    drop(live);

    let from = Some(&*second.folder);
    let (third, live) = start("reinstall_again", vec![target()], "TARGET-0", from)?;
    check_existing(&check_rebooted(live, &third)?, &["boot"])?;

    // The same answer once more: the trace on the disk says that it is done.
    let machine = Machine::plain(2048, vec![target()]);
    let again = restore("again", &third.folder, &machine, &live_config_of(&third, "")?, "")?;
    again.wait_for_reboot()?;
    let previous = json!({"request": "the-same", "stage": "installed", "proved": true});
    let expected = json!({"outcome": "already_installed", "disk_state": "untouched"});
    let result = third.sent("result")?;
    check(&result, &expected)?;
    check(&result["previous"], &previous)?;
    check(&third.sent("report")?["previous"], &previous)
}

/// A mirrored CoreOS as Butane's `boot_device.mirror` makes it, active on both disks. Once the install was refused, its
/// arrays are stopped by hand.
const MIRROR: &str = "#!/bin/sh -e
modprobe raid1
n=0
for disk in TARGET-0 SECOND-0; do
  n=$((n + 1))
  printf 'label: gpt\nsize=1MiB, name=bios-%s\nsize=32MiB, name=esp-%s\nsize=128MiB, name=boot-%s\nsize=256MiB, name=root-%s\n' $n $n $n $n |
    sfdisk -q /dev/disk/by-id/virtio-$disk
done
udevadm settle
mirror() {
  mdadm --create /dev/md/md-$1 --run --assume-clean --metadata=$2 --level=1 --raid-devices=2 \
    /dev/disk/by-partlabel/$1-1 /dev/disk/by-partlabel/$1-2
  mkfs.ext4 -q -L $1 /dev/md/md-$1
}
mirror boot 1.0
mirror root 1.2
udevadm settle
cat >/run/stop-mirror <<'END'
until journalctl -m | grep -q DISK_BUSY; do sleep 1; done
mdadm --stop /dev/md/md-boot /dev/md/md-root
udevadm settle
sync
echo \"OTHER-HALF label=$(lsblk -dno LABEL /dev/disk/by-partlabel/boot-2)\" >/dev/ttyS0
END
systemd-run -q --no-block sh /run/stop-mirror
";

#[test]
fn an_active_mirror_is_refused_and_once_stopped_one_half_is_installed_and_the_other_kept()
-> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    order["install"]["existing_data"] = json!("wipe");
    let lab = start_lab("reinstall_mirror", &proof, &order, "")?;
    let disks = vec![Machine::target_disk(), Disk { size_bytes: 512 << 20, ..second_disk() }];
    let mut live = restore_live(&lab, &Machine::plain(2048, disks), MIRROR)?;
    // CoreOS counts file systems labelled `boot` at the first boot; the half that stays must be none.
    let other = live.wait_for("OTHER-HALF label=")?.text;
    ensure!(!other.trim_end().ends_with("label=boot"), "the other half shows {other:?}");
    let second = lab.folder.join("second.raw");
    let before = digest(&second)?;
    let result = lab.sent("result")?;
    check_refused(&result)?;
    let says = result["message"].as_str().unwrap_or_default();
    let names_it = says.contains("is also built on vdb3");
    ensure!(result["code"] == "DISK_BUSY" && names_it, "the result says {result:#}");
    let result = check_rebooted(live, &lab)?;
    ensure!(digest(&second)? == before, "the other half has changed");
    check_existing(&result, &["linux_raid_member", "boot-1", "root-1"])
}

/// Joins the two paths of the SCSI disk.
const MULTIPATH: &str = "#!/bin/sh -e
modprobe dm-multipath
printf 'defaults {\n user_friendly_names yes\n find_multipaths no\n}\nblacklist {\n devnode \"^(vd|sr)\"\n}\n' >/etc/multipath.conf
systemctl start multipathd
udevadm settle
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/mapper/mpatha ] && break; multipath -v1; sleep 1; done
multipath -ll
";

#[test]
fn a_disk_with_two_paths_is_installed_through_its_multipath_map() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_4096)?;
    order["install"]["disk"] = json!({"hints": {"wwn": "0x5000c50015ea71ad"}});
    order["on_refusal"] = json!("stop");
    let lab = start_lab("multipath", &proof, &order, "")?;
    let kind = DiskKind::scsi("LUN-0", 0x5000_c500_15ea_71ad, ["SEAGATE", "ST4000"], 1, 2);
    let disks = vec![Disk::new("target", GIB, 4096, kind)];
    let live = restore_live(&lab, &Machine::plain(2048, disks), MULTIPATH)?;
    let result = check_rebooted(live, &lab)?;
    check(&result["disk"], &json!({"device": "/dev/dm-0"}))
}
