//! Rows of RAID controllers. What their firmware reports, the kernel does not see.

use super::super::Severity::{Critical, Info, Warning};
use super::row_table;

row_table! {
    DISK_RAID_DRIVE_FAILED = "disk.raid_drive_failed" Critical or Warning {
        meaning: "A RAID controller has taken a drive out of service. It is a warning if the drive is offline or \
                  unconfigured rather than failed.",
        source: "MegaRAID firmware, MR_DCMD_PD_GET_INFO, fwState of the drive.",
        advice: "Replace the drive; the controller rebuilds the volume onto the new one.",
        false_alarms: "Hot spares, unconfigured good drives, passed-through drives and drives that are rebuilding \
                       raise nothing, nor does an offline drive of a volume that is optimal.",
    };
    DISK_RAID_DRIVE_FAILING = "disk.raid_drive_failing" Warning {
        meaning: "A drive of a RAID controller predicted its own failure.",
        source: "MegaRAID firmware, MR_DCMD_PD_GET_INFO, predFailCount.",
        advice: "Replace the drive before it fails, one drive of a volume at a time.",
        false_alarms: "Only the drive's own predictions count, not errors that the controller corrected.",
    };
    DISK_RAID_DRIVE_ERRORS = "disk.raid_drive_errors" Warning {
        meaning: "A RAID controller counted media errors on a drive.",
        source: "MegaRAID firmware, MR_DCMD_PD_GET_INFO, mediaErrCount.",
        advice: "Plan to replace the drive.",
        false_alarms: "Other errors (otherErrCount), which cables and resets also cause, are ignored.",
    };
    DISK_RAID_DRIVE_FOREIGN = "disk.raid_drive_foreign" Info {
        meaning: "A drive contains the RAID configuration of another controller, so it is not used.",
        source: "MegaRAID firmware, MR_DCMD_PD_GET_INFO, ddfState bit of a foreign drive.",
        advice: "Import or clear the foreign configuration in the controller's setup.",
        false_alarms: "Drives without a configuration, and drives of this controller, raise nothing.",
    };
    DISK_RAID_VOLUME_OFFLINE = "disk.raid_volume_offline" Critical {
        meaning: "A RAID volume has lost too many drives; its data is not accessible.",
        source: "MegaRAID firmware, MR_DCMD_LD_GET_LIST, state of the volume.",
        advice: "Find the drives that failed or were pulled. Reinsert pulled drives before replacing any.",
        false_alarms: "The state is the controller's own; a volume that only lacks redundancy is reported as \
                       disk.raid_volume_degraded.",
    };
    DISK_RAID_VOLUME_DEGRADED = "disk.raid_volume_degraded" Warning {
        meaning: "A RAID volume has lost a drive. It works with less redundancy, or without any.",
        source: "MegaRAID firmware, MR_DCMD_LD_GET_LIST, state of the volume; the members in \
                 MR_DCMD_CONF_GET.",
        advice: "Find the drive that failed or was pulled, and replace it.",
        false_alarms: "An optimal volume raises nothing, even while the controller checks its consistency.",
    };
    DISK_RAID_MEMORY_ERRORS = "disk.raid_memory_errors" Critical {
        meaning: "The cache memory of a RAID controller had errors that could not be corrected. Written data may \
                  be wrong.",
        source: "MegaRAID firmware, MR_DCMD_CTRL_GET_INFO, mem_uncorrectable_error_count.",
        advice: "Replace the controller or its memory module, and verify the data of its volumes.",
        false_alarms: "Errors that the controller corrected are ignored.",
    };
}
