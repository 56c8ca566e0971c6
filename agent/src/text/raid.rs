//! RAID controllers with their volumes and the drives that the kernel does not see.

use probes::block::{RaidController, RaidDrive, RaidVolume};

use super::page::{Page, Tone, counted, heading, nonzero, pairs, with};
use super::unit;

pub(super) fn controller(page: &mut Page, controller: &RaidController) {
    let model = controller.model.as_deref().unwrap_or(&controller.driver);
    let n_drives =
        controller.drives.as_ref().map(|all| format!(", {}", counted(all.len(), "drive")));
    let line = format!(
        "RAID controller {model} [@{}]{}{}",
        controller.pci_address,
        n_drives.unwrap_or_else(|| ", drives unknown".to_owned()),
        pairs!(controller; serial, firmware),
    );
    page.line(1, &line);
    page.each(controller.volumes(), |page, entry| volume(page, controller, entry));
    page.each(controller.drives(), drive);
}

fn volume(page: &mut Page, controller: &RaidController, volume: &RaidVolume) {
    let place_of = |id: &u16| {
        let known = controller.drives().find(|drive| drive.device_id == Some(*id));
        known.map_or_else(|| format!("drive {id}"), place)
    };
    let members: Vec<String> = volume.drives.iter().map(place_of).collect();
    let members = (!members.is_empty()).then(|| members.join(", "));
    let missing = volume.n_missing_drives.filter(|n| *n > 0).map(|n| format!("{n} missing"));
    let text = format!(
        "volume {}{}{}{}{}{}{}",
        volume.id,
        with(" ", volume.raid_level.as_ref()),
        heading("", volume.size_bytes.map(unit::disk)),
        with(" ", volume.state.as_ref()),
        with(", on ", members),
        with(", ", missing),
        pairs!(volume; disk, name),
    );
    let tone = match volume.state.as_deref() {
        Some("offline") => Tone::Critical,
        Some("degraded" | "partially degraded") => Tone::Warning,
        _ => Tone::Plain,
    };
    page.toned(tone, 3, &text);
}

fn drive(page: &mut Page, drive: &RaidDrive) {
    let kind = match drive.rotational {
        Some(true) => " HDD",
        Some(false) => " SSD",
        None => "",
    };
    let errors = nonzero(&[
        (drive.media_errors.map(Into::into), "media errors"),
        (drive.other_errors.map(Into::into), "other errors"),
        (drive.predictive_failures.map(Into::into), "predicted failures"),
    ]);
    let text = format!(
        "{}{}{}{kind}{}{}{}{}{}",
        place(drive),
        with(" ", drive.state.as_ref()),
        with(" ", drive.rebuild_percent.map(|percent| format!("{percent} %"))),
        heading("", drive.size_bytes.map(unit::disk)),
        with(" ", drive.interface.as_ref()),
        if drive.is_foreign == Some(true) { ", foreign" } else { "" },
        with(", ", (!errors.is_empty()).then(|| errors.join(", "))),
        pairs!(drive; vendor, model, serial, "WWN" wwn, disk),
    );
    let is_bad = drive.media_errors > Some(0) || drive.predictive_failures > Some(0);
    let tone = match drive.state.as_deref() {
        Some("failed") => Tone::Critical,
        Some("offline" | "unconfigured bad" | "rebuilding") => Tone::Warning,
        _ if is_bad => Tone::Warning,
        _ => Tone::Plain,
    };
    page.toned(tone, 3, &text);
}

/// `slot 32:4`: enclosure and slot, as the vendor's tools print them.
fn place(drive: &RaidDrive) -> String {
    match (drive.enclosure, drive.slot) {
        (Some(enclosure), Some(slot)) => format!("slot {enclosure}:{slot}"),
        (None, Some(slot)) => format!("slot {slot}"),
        _ => match (drive.device_id, &drive.hctl) {
            (Some(id), _) => format!("drive {id}"),
            (None, hctl) => format!("drive {}", hctl.as_deref().unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn a_failed_drive_of_a_volume_is_named_by_enclosure_and_slot() {
        let text = shown(
            controller,
            json!({
                "pci_address": "0000:18:00.0",
                "drives": [
                    {"device_id": 8, "enclosure": 32, "slot": 3, "state": "online"},
                    {"device_id": 9, "enclosure": 32, "slot": 4, "state": "failed", "media_errors": 7},
                ],
                "volumes": [
                    {"raid_level": "RAID 1", "state": "degraded", "drives": [8, 9], "disk": "sda"},
                ],
            }),
        );
        for line in [
            "volume 0 RAID 1 degraded, on slot 32:3, slot 32:4 disk=sda\n",
            "slot 32:4 failed, 7 media errors\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
