//! Rows of disks and arrays.

use super::super::Severity::{Critical, Warning};
use super::row_table;

row_table! {
    DISK_NONE_ELIGIBLE = "disk.none_eligible" Warning {
        meaning: "No system runs from a disk of this machine, and none of its disks can be installed on.",
        source: "The list of disks with the reasons against each (section block of the report).",
        advice: "Look for a disk that is not plugged in, a controller without a driver, or a RAID volume that is \
                 not configured.",
        false_alarms: "An installed machine is healthy: nothing is raised while the running system's root or boot \
                       file system is on a disk. Nothing is raised either if the disks were not listed, or if one \
                       was not examined for want of permission.",
    };
    DISK_ZERO_SIZE = "disk.zero_size" Warning {
        meaning: "The disk responds but reports zero capacity. It is usually dead, or locked by its firmware.",
        source: "/sys/block/*/size.",
        advice: "Reseat the disk. If it still reports zero capacity, replace it.",
        false_alarms: "Removable drives without a medium, optical and floppy drives, and virtual media of a BMC \
                       report zero capacity while empty and are ignored.",
    };
    DISK_UNREADABLE = "disk.unreadable" Warning {
        meaning: "The disk cannot be read at its start, in its middle or at its end: the read ends in an I/O error, or \
                  the disk does not answer.",
        source: "A read of the first 4096 bytes, and the time that it took. `check` also reads 64 KiB each at the start, \
                 in the middle and at the end, and so does an install of the chosen disk.",
        advice: "Check the cable and the backplane, then replace the disk. The kernel log names the failed reads.",
        false_alarms: "Removable drives, locked disks, disks that need a right to be read, and paths to a LUN that \
                       is also reachable otherwise are ignored.",
    };
    DISK_DUPLICATE_IDENTITY = "disk.duplicate_identity" Warning {
        meaning: "Several disks report the same WWN: they are paths to one LUN without multipath, or copies.",
        source: "WWNs from /sys/block/*/{wwid,device/wwid} and VPD page 83h (SPC-5, section 7.7.6).",
        advice: "If these are paths to one LUN, enable multipath. Otherwise select the disk by serial number or path.",
        false_alarms: "Disks that belong to a multipath device are not compared, nor are disks without a WWN.",
    };
    DISK_HEALTH_FAILING = "disk.health.failing" Critical {
        meaning: "The disk itself predicts or reports its failure.",
        source: "NVMe SMART log, critical warning; ATA SMART RETURN STATUS; SCSI informational exceptions log; eMMC \
                 pre_eol_info.",
        advice: "Back up the data and replace the disk.",
        false_alarms: "A warning about temperature alone is reported as disk.health.hot. Disks that do not report \
                       their health raise nothing.",
    };
    DISK_HEALTH_WORN = "disk.health.worn" Warning {
        meaning: "The disk has used up its rated endurance. It may still work, but can become read-only.",
        source: "NVMe SMART log, percentage used; ATA device statistics; SCSI solid state media log; eMMC life_time.",
        advice: "Plan to replace the disk; it may become read-only.",
        false_alarms: "Below 100 % nothing is raised. Wear that a disk does not report is never estimated.",
    };
    DISK_HEALTH_BAD_SECTORS = "disk.health.bad_sectors" Warning {
        meaning: "The disk has data that it cannot read or write.",
        source: "ATA attributes 197 and 198; media errors of the NVMe SMART log; uncorrected errors of the SCSI \
                 error counter logs.",
        advice: "Back up the data and replace the disk.",
        false_alarms: "Reallocated sectors (attribute 5) and corrected errors are normal ageing and are ignored, \
                       as are transfer errors on the cable (attribute 199).",
    };
    DISK_HEALTH_HOT = "disk.health.hot" Warning {
        meaning: "The disk is at or above the temperature at which its vendor warns. It may slow down or stop.",
        source: "NVMe SMART log with WCTEMP of the controller; SCSI temperature log with its reference temperature.",
        advice: "Check the fans, blanking panels and airflow of the chassis.",
        false_alarms: "The limit is the disk's own. Without one only the disk's own warning counts.",
    };
    DISK_LATE_COMMANDS = "disk.late_commands" Warning {
        meaning: "Since boot, commands to the disk timed out or had to be aborted.",
        source: "/sys/block/*/device/iotmo_cnt, since Linux 5.18.",
        advice: "Check the cable, the backplane and the disk. The kernel log names the commands.",
        false_alarms: "ioerr_cnt is not used: it also counts harmless answers, such as a refused query.",
    };
    DISK_LOCKED = "disk.locked" Warning {
        meaning: "An ATA password or a TCG lock prevents access to the disk.",
        source: "ATA IDENTIFY DEVICE, word 128; TCG Level 0 Discovery, locking feature 0002h.",
        advice: "Unlock the disk with its password, or revert it to factory state, which erases it.",
        false_alarms: "A disk that only supports locking, or whose locks are enabled but open, raises nothing.",
    };
    DISK_PATH_LOST = "disk.path_lost" Warning {
        meaning: "A disk with several paths has lost one of them. It still works, without redundancy.",
        source: "State of each path: /sys/block/*/device/state, and state of the NVMe controllers.",
        advice: "Check the cable, the switch port and the controller of the path.",
        false_alarms: "Paths whose state is live or running, or is not known, are not counted as lost.",
    };
    DISK_LINK_ERRORS = "disk.link_errors" Warning {
        meaning: "A Fibre Channel link has errors while the agent watches (check --sample).",
        source: "/sys/class/fc_host/*/statistics, read twice.",
        advice: "Replace the cable or the module, and clean its connector. If the errors go on, try another switch port.",
        false_alarms: "Only what rises between the two readings counts. A counter that the driver does not keep has \
                       all bits set and is ignored.",
    };
    DISK_ARRAY_DEGRADED = "disk.array_degraded" Warning {
        meaning: "A software RAID array runs with fewer members than it should have.",
        source: "/sys/block/mdN/md/degraded.",
        advice: "Find the disk that dropped out; add it again, or replace it.",
        false_alarms: "An array that is complete but rebuilding has no missing members and raises nothing.",
    };
    DISK_KERNEL_ERRORS = "disk.kernel_errors" Warning {
        meaning: "The kernel logged read, write or timeout errors of a disk since boot.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt.",
        advice: "Check the health of the disk, its cable and its bay. If errors occur again in another bay, replace the disk.",
        false_alarms: "Optical and removable drives, media that are gone, and commands that a disk does not support are ignored.",
    };
}
