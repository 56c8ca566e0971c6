//! Machines with several controllers: answers of the firmware, byte by byte.

use super::*;
use crate::block::{attach_raid, block};
use crate::testing::{has, tree_from_bytes};
use serde_json::json;

const ADDRESS: &str = "0000:18:00.0";

/// A small machine: files by path.
#[derive(Default)]
struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    fn put(&mut self, path: &str, content: impl AsRef<[u8]>) -> &mut Files {
        self.0.retain(|(known, _)| known != path);
        self.0.push((path.to_owned(), content.as_ref().to_vec()));
        self
    }

    fn answer(&mut self, question: &str, content: impl AsRef<[u8]>) -> &mut Files {
        self.put(&format!("kernel/megaraid/host0/{question}"), content)
    }

    fn machine(&self) -> Machine {
        tree_from_bytes(&self.0)
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn controller_info() -> Vec<u8> {
    let mut info = vec![0; 2048];
    put(&mut info, 1344, b"PERC H740P Mini\0garbage");
    put(&mut info, 1424, b"84B01XY\0");
    put(&mut info, 1488, &8192_u16.to_le_bytes());
    put(&mut info, 1600, b"51.16.0-5150\0");
    info
}

/// A list of drives and one enclosure.
fn drive_list(ids: &[u16]) -> Vec<u8> {
    let mut list = vec![0; 8 + 256 * 24];
    put(&mut list, 4, &u32::try_from(ids.len() + 1).unwrap().to_le_bytes());
    for (entry, id) in list[8..].chunks_mut(24).zip(ids) {
        put(entry, 0, &id.to_le_bytes());
    }
    put(&mut list, 8 + ids.len() * 24, &[32, 0, 32, 0, 0, 0, 0x0d]);
    list
}

fn drive_info(id: u16, slot: u8, state: u16) -> Vec<u8> {
    let mut info = vec![0; 512];
    put(&mut info, 0, &id.to_le_bytes());
    put(&mut info, 4 + 8, b"SEAGATE ST1200MM0099    ST31WFK0A1B2");
    let naa = [0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, id.to_le_bytes()[0]];
    put(&mut info, 100, &[0, 0x83, 0, 12, 1, 3, 0, 8]);
    put(&mut info, 108, &naa);
    put(&mut info, 168, &[2, 0, 0, 0, 5, 0, 0, 0]);
    put(&mut info, 184, &state.to_le_bytes());
    put(&mut info, 188, &(2_u16 << 12 | 0x02).to_le_bytes());
    put(&mut info, 192, &[1]);
    put(&mut info, 200, &0x5000_c500_a1b2_c3d5_u64.to_le_bytes());
    put(&mut info, 232, &0x8bba_0cb0_u64.to_le_bytes());
    put(&mut info, 256, &[32, 0, 1, slot]);
    put(&mut info, 402, &[36]);
    info
}

fn volume_list(states: &[(u8, u8)]) -> Vec<u8> {
    let mut list = vec![0; 8 + 64 * 16];
    put(&mut list, 0, &[u8::try_from(states.len()).unwrap()]);
    for (entry, (id, state)) in list[8..].chunks_mut(16).zip(states) {
        (entry[0], entry[4]) = (*id, *state);
        put(entry, 8, &0x1000_u64.to_le_bytes());
    }
    list
}

fn volume_info(id: u8, level: u8, arrays: &[u16], state: u8) -> Vec<u8> {
    let mut info = vec![0; 384];
    info[0] = id;
    put(&mut info, 4, b"system\0");
    (info[32], info[37], info[38]) = (level, u8::try_from(arrays.len()).unwrap(), state);
    for (at, array) in arrays.iter().enumerate() {
        put(&mut info, 64 + at * 24 + 16, &array.to_le_bytes());
    }
    info
}

/// An array of two drives by number.
fn configuration(arrays: &[(u16, [u16; 2])]) -> Vec<u8> {
    let n_bytes = 32 + arrays.len() * 288;
    let mut all = vec![0; 4096];
    put(&mut all, 0, &u32::try_from(n_bytes).unwrap().to_le_bytes());
    put(&mut all, 4, &[u8::try_from(arrays.len()).unwrap(), 0, 0x20, 1]);
    for (array, (number, drives)) in all[32..].chunks_mut(288).zip(arrays) {
        array[8] = 2;
        put(array, 10, &number.to_le_bytes());
        put(array, 32, &drives[0].to_le_bytes());
        put(array, 40, &drives[1].to_le_bytes());
    }
    all
}

/// Volume 0 of drives 8 and 9; drive 9 has failed.
fn mirror() -> Files {
    let mut files = Files::default();
    let devices = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0";
    let disk = format!("{devices}/host0/target0:2:0/0:2:0:0/block/sda");
    files
        .put(&format!("sys/bus/pci/drivers/megaraid_sas/{ADDRESS}"), "-> ../../../../devices/x")
        .put(&format!("sys/bus/pci/devices/{ADDRESS}/host0/uevent"), "")
        .put("sys/class/scsi_host/host0/state", "running\n")
        .put("sys/block/sda", format!("-> ../{}", disk.trim_start_matches("sys/")))
        .put(&format!("{disk}/size"), "4096\n")
        .put(&format!("{devices}/driver"), "-> ../../../../bus/pci/drivers/megaraid_sas")
        .answer("controller", controller_info())
        .answer("drives", drive_list(&[9, 8]))
        .answer("drive-8", drive_info(8, 1, 0x18))
        .answer("drive-9", drive_info(9, 2, 0x11))
        .answer("volumes", volume_list(&[(0, 2)]))
        .answer("volume-0", volume_info(0, 1, &[0], 2))
        .answer("configuration", configuration(&[(0, [8, 9])]));
    files
}

fn of(files: &Files) -> RaidController {
    let machine = files.machine();
    let mut found = controllers(&machine);
    assert_eq!((found.len(), machine.problems()), (1, Vec::new()));
    found.remove(0)
}

#[test]
fn failed_drive_is_found_in_its_volume() {
    let controller = of(&mirror());
    has(
        &controller,
        &json!({
            "model": "PERC H740P Mini", "firmware": "51.16.0-5150", "serial": "84B01XY", "memory_mib": 8192,
            "drives/0/device_id": 8, "drives/2": null, "volumes/0/state": "degraded",
            "volumes/0/name": "system", "volumes/0/drives": [8, 9], "volumes/0/n_missing_drives": 0,
            "volumes/0/size_bytes": 0x1000 * 512,
        }),
    );
    has(
        &controller.drives().nth(1),
        &json!({
            "device_id": 9, "enclosure": 32, "slot": 2, "state": "failed", "serial": "WFK0A1B2",
            "model": "ST1200MM0099", "wwn": "0x5000c500a1b2c309", "sas_address": "0x5000c500a1b2c3d5",
            "interface": "sas", "size_bytes": 0x8bba_0cb0_u64 * 512, "media_errors": 2,
            "other_errors": 5, "temperature_celsius": 36, "is_foreign": false,
        }),
    );
}

#[test]
fn rebuild_predicted_failures_and_cache_errors_are_read_if_present() {
    let mut files = mirror();
    let mut info = drive_info(8, 1, 0x14);
    put(&mut info, 176, &[3]);
    // A foreign SATA drive; half of the rebuild and three quarters of a patrol read are done.
    put(&mut info, 188, &(3_u16 << 12 | 0x10).to_le_bytes());
    put(&mut info, 260, &[0b11, 0, 0, 0, 0xff, 0x7f, 0, 0, 0xff, 0xbf]);
    let mut patrolled = drive_info(9, 2, 0x18);
    put(&mut patrolled, 260, &[0b10, 0, 0, 0, 0xff, 0x7f]);
    let mut of_controller = controller_info();
    put(&mut of_controller, 1492, &[7, 0, 1, 0]);
    files.answer("drive-8", info).answer("drive-9", patrolled).answer("controller", of_controller);
    has(
        &of(&files),
        &json!({
            "memory_correctable_errors": 7, "memory_uncorrectable_errors": 1,
            "drives/0/state": "rebuilding", "drives/0/rebuild_percent": 49,
            "drives/1/rebuild_percent": null, "drives/0/predictive_failures": 3,
            "drives/1/predictive_failures": 0, "drives/0/is_foreign": true, "drives/0/interface": "sata",
        }),
    );
}

#[test]
fn drive_and_volume_are_counted_in_the_blocks_of_the_drive() {
    for (block_bytes, of_volume) in [(4096_u16, json!(0x1000 * 4096)), (520, json!(0x1000 * 520))] {
        let mut files = mirror();
        for id in [8, 9] {
            let mut info = drive_info(id, 1, 0x18);
            put(&mut info, 404, &block_bytes.to_le_bytes());
            files.answer(&format!("drive-{id}"), info);
        }
        has(
            &of(&files),
            &json!({
                "drives/0/logical_block_bytes": block_bytes, "volumes/0/size_bytes": of_volume,
                "drives/0/size_bytes": 0x8bba_0cb0_u64 * u64::from(block_bytes),
            }),
        );
    }
}

#[test]
fn listed_drive_without_description_is_still_a_drive() {
    let mut files = mirror();
    let mut list = drive_list(&[9, 8]);
    put(&mut list, 8 + 24 + 2, &[32, 0, 1, 7]);
    files.answer("drives", list).0.retain(|(path, _)| !path.ends_with("/drive-8"));
    let expected =
        json!({"device_id": 8, "enclosure": 32, "slot": 7, "state": null, "media_errors": null});
    let controller = of(&files);
    has(&controller.drives().nth(1), &expected);
    assert_eq!(controller.drives().count(), 2);
}

#[test]
fn truncated_description_is_a_problem_and_leaves_the_listed_facts() {
    let mut files = mirror();
    files.answer("drive-8", &drive_info(8, 1, 0x18)[..160]).answer("volume-0", [0; 30]);
    let machine = files.machine();
    let found = controllers(&machine);
    assert_eq!((found[0].drives().count(), found[0].volumes().count()), (2, 1));
    let problems = machine.problems().into_iter().map(|problem| (problem.path, problem.found));
    let at = |what: &str| format!("/kernel/megaraid/host0/{what}");
    let expected = [(at("drive-8"), "160 bytes".into()), (at("volume-0"), "30 bytes".into())];
    assert_eq!(problems.collect::<Vec<_>>(), expected);
}

#[test]
fn more_volumes_than_the_list_has_room_for_are_a_problem() {
    let mut files = mirror();
    let mut list = volume_list(&[(0, 2)]);
    list[0] = 65;
    let machine = files.answer("volumes", list).machine();
    assert!(controllers(&machine)[0].volumes().next().is_some());
    assert!(machine.problems().iter().any(|problem| problem.found == "65 volumes"));
}

#[test]
fn blank_name_of_a_drive_is_ignored_and_requested_from_the_drive() {
    let mut files = mirror();
    let mut info = drive_info(8, 1, 0x18);
    put(&mut info, 108, &[0; 8]);
    files.answer("drive-8", info);
    has(&of(&files), &json!({"drives/0/wwn": null}));
    let page = [0, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd4];
    files.answer("drive-8-page-83", page);
    has(&of(&files), &json!({"drives/0/wwn": "0x5000c500a1b2c3d4"}));
}

#[test]
fn missing_member_is_counted_and_a_drive_without_an_enclosure_has_none() {
    let mut files = mirror();
    let mut info = drive_info(8, 1, 0x18);
    put(&mut info, 256, &[0xff, 0xff, 0, 3]);
    files
        .answer("drives", drive_list(&[8]))
        .answer("drive-8", info)
        .answer("configuration", configuration(&[(0, [8, 0xffff])]));
    let controller = of(&files);
    has(&controller, &json!({"drives/0/enclosure": null, "drives/0/slot": 3}));
    has(&controller, &json!({"volumes/0/drives": [8], "volumes/0/n_missing_drives": 1}));
}

#[test]
fn fields_that_firmware_leaves_zero_are_absent() {
    let mut files = mirror();
    let mut info = vec![0; 512];
    put(&mut info, 0, &[8, 0]);
    put(&mut info, 4, &[0x7f]);
    files.answer("drive-8", info).answer("controller", [0; 2048]);
    let controller = of(&files);
    has(
        &controller,
        &json!({"model": null, "memory_mib": null, "memory_uncorrectable_errors": null}),
    );
    has(
        &controller.drives().find(|drive| drive.device_id == Some(8)),
        &json!({
            "vendor": null, "serial": null, "wwn": null, "size_bytes": null, "temperature_celsius": null,
            "interface": null, "sas_address": null,
            // A count of zero is a value.
            "media_errors": 0, "state": "unconfigured good",
        }),
    );
}

#[test]
fn serial_number_from_the_drive_wins_over_vendor_bytes() {
    let mut files = mirror();
    let rate = [&[0, 0xb1, 0, 0x3c, 0x29, 0x04][..], &[0; 58]].concat();
    files
        .answer("drive-8-page-80", b"\0\x80\0\x14WFK0A1B20000E123456  ")
        .answer("drive-8-page-b1", &rate)
        .answer("drive-9-page-80", b"\0\x80\0\x04LOST");
    has(
        &of(&files),
        &json!({
            "drives/0/serial": "WFK0A1B20000E123456", "drives/0/rotational": true,
            "drives/0/rotation_rpm": 10_500,
            // A failed drive could block the controller.
            "drives/1/serial": "WFK0A1B2",
        }),
    );
}

#[test]
fn drives_without_time_are_reported_and_keep_the_controllers_facts() {
    let mut files = mirror();
    files.answer("drive-8-page-80", b"\0\x80\0\x04LATE");
    let machine = files.machine();
    let found = megaraid::controllers(&machine, std::time::Duration::ZERO);
    assert_eq!(found[0].drives().next().unwrap().serial.as_deref(), Some("WFK0A1B2"));
    assert_eq!(found[0].volumes().count(), 1);
    let problems = machine.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "/kernel/megaraid/host0/drives");
    assert!(problems[0].found.starts_with("drives that were not asked directly"));
}

#[test]
fn pages_of_a_drive_replace_what_the_controller_lacks() {
    let mut files = mirror();
    let mut info = drive_info(8, 1, 0x18);
    info[4..164].fill(0x7f);
    let standard = [&[0, 0, 6, 2, 31, 0, 0, 0][..], b"HGST    HUC101812CSS200 B21D"].concat();
    let naa =
        [&[0, 0x83, 0, 12, 1, 3, 0, 8][..], &0x5000_cca0_1234_5678_u64.to_be_bytes()].concat();
    files
        .answer("drive-8", info)
        .answer("drive-8-page-00", standard)
        .answer("drive-8-page-83", naa);
    has(
        &of(&files).drives().next(),
        &json!({
            "model": "HUC101812CSS200", "vendor": "HGST", "firmware": "B21D",
            "wwn": "0x5000cca012345678", "slot": 1, "state": "online",
        }),
    );
}

/// The disk that is linked to drive 130, whose NAA name ends in 82h, if the disk at its address has `page`
/// as VPD page 83h.
fn passed_through(page: &[u8]) -> Option<String> {
    let mut files = mirror();
    let devices = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0";
    let disk = format!("{devices}/host0/target0:1:2/0:1:2:0/block/sdb");
    files
        .put("sys/block/sdb", format!("-> ../{}", disk.trim_start_matches("sys/")))
        .put(&format!("{disk}/size"), "8\n")
        .put(&format!("{disk}/device/vpd_pg83"), page)
        .answer("drives", drive_list(&[130]))
        .answer("drive-130", drive_info(130, 1, 0x40));
    let machine = files.machine();
    let mut block = block(&machine);
    attach_raid(&mut block, controllers(&machine));
    let drive = block.raid_controllers[0].drives().next().unwrap();
    assert_eq!(drive.state.as_deref(), Some("jbod"));
    drive.disk.clone()
}

#[test]
fn passed_through_drive_is_linked_to_its_disk_and_no_other_at_its_address() {
    let page = |last: u8| [0, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, last];
    assert_eq!(passed_through(&[]).as_deref(), Some("sdb"));
    assert_eq!(passed_through(&page(0x82)).as_deref(), Some("sdb"));
    assert_eq!(passed_through(&page(0x83)), None);
}

#[test]
fn silent_controller_is_listed_with_its_address_only() {
    let mut files = mirror();
    files.0.retain(|(path, _)| !path.starts_with("kernel/"));
    let known = json!({"pci_address": ADDRESS, "driver": "megaraid_sas"});
    assert_eq!(serde_json::to_value(of(&files)).unwrap(), known);
    assert!(controllers(&tree_from_bytes(&[("sys/block/sda/size", b"8")])).is_empty());
}

#[test]
fn recovering_controller_is_not_asked_and_reported_as_a_problem() {
    let mut files = mirror();
    files.put("sys/class/scsi_host/host0/state", "recovery\n");
    let machine = files.machine();
    assert_eq!(controllers(&machine)[0].model, None);
    assert_eq!(machine.problems()[0].found, "\"recovery\"");
}

#[test]
fn unknown_states_and_answers_for_another_drive_are_problems() {
    let mut files = mirror();
    files.answer("drive-8", drive_info(8, 1, 0x77)).answer("drive-9", drive_info(7, 1, 0x18));
    let machine = files.machine();
    let found = controllers(&machine);
    assert_eq!((found[0].drives().count(), &found[0].drives().next().unwrap().state), (1, &None));
    let problems = machine.problems();
    assert_eq!(problems[0].found, "drive state 0x77");
    assert_eq!(problems[1].path, "/kernel/megaraid/host0/drive-9");
}

#[test]
fn truncated_and_odd_answers_cost_only_their_own_facts() {
    let whole = mirror();
    let answers: Vec<(String, Vec<u8>)> =
        whole.0.iter().filter(|(path, _)| path.starts_with("kernel/")).cloned().collect();
    for (path, content) in answers {
        for n in (0..content.len()).step_by(37) {
            let mut files = Files(whole.0.clone());
            files.put(&path, &content[..n]);
            assert_eq!(controllers(&files.machine()).len(), 1);
        }
        for byte in [0x00, 0x7f, 0xff] {
            let mut files = Files(whole.0.clone());
            files.put(&path, vec![byte; content.len()]);
            assert!(controllers(&files.machine())[0].drives().count() <= 256);
        }
    }
}
