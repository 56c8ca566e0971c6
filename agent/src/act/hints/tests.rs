//! Hints match as Ironic and Metal3 mean them.

use serde_json::json;

use super::*;

fn disk() -> Disk {
    Disk {
        name: "sda".into(),
        device: "/dev/sda".into(),
        size_bytes: Some(500 << 30),
        serial: Some(" S4EVNX0R ".into()),
        wwn: Some("0x600508b1001c4d41aabbccddeeff0011".into()),
        model: Some("SAMSUNG MZ7LH960".into()),
        vendor: Some("ATA".into()),
        rotational: Some(false),
        hctl: Some("0:0:1:0".into()),
        by_path: Some("/dev/disk/by-path/pci-0000:00:1f.2-ata-1".into()),
        other_serials: vec!["5002538e00000001".into()],
        other_paths: vec!["/dev/disk/by-path/pci-0000:00:1f.2-ata-1.0".into()],
        transport: Some("sata".into()),
        eligible: true,
        ..Disk::default()
    }
}

fn fits(hints: &Value) -> Result<bool, String> {
    let hints = Hints::parse(hints.as_object().unwrap()).map_err(|said| said.to_string());
    hints.map(|hints| hints.matches(&disk()))
}

fn parsed(hints: &Value) -> Hints {
    Hints::parse(hints.as_object().unwrap()).unwrap()
}

#[test]
fn hints_in_ironics_syntax_match_as_they_do_there() {
    for (hints, expected) in [
        (json!({"serial": "s4evnx0r"}), true),
        (json!({"serial": "s== S4EVNX0R"}), true),
        (json!({"serial": "s!= S4EVNX0R"}), false),
        (json!({"serial": "<or> X <or> S4EVNX0R"}), true),
        (json!({"model": "samsung mz7lh960"}), true),
        (json!({"model": "samsung"}), false),
        (json!({"model": "<in> samsung"}), true),
        (json!({"model": "<all-in> MZ7 samsung"}), true),
        (json!({"model": "<all-in> MZ7 intel"}), false),
        (json!({"size": 500}), true),
        (json!({"size": "500"}), true),
        (json!({"size": "= 400"}), true),
        (json!({"size": ">= 501"}), false),
        (json!({"size": "< 501"}), true),
        (json!({"size": "<or> 100 <or> 500"}), true),
        (json!({"size": "<range-in> [ 400 500 ]"}), true),
        (json!({"size": "<range-in> [ 400 500 )"}), false),
        (json!({"size": ">=400"}), true),
        (json!({"size": "=501"}), false),
        (json!({"model": "<in>samsung"}), true),
        (json!({"serial": "S== s4evnx0r"}), true),
        (json!({"serial": "<OR>x<or>S4EVNX0R"}), true),
        (json!({"rotational": false}), true),
        (json!({"rotational": "yes"}), false),
        (json!({"name": "/dev/sda"}), true),
        (json!({"hctl": "0:0:1:0"}), true),
        (json!({"tran": "sata", "size": ">= 1"}), true),
        (json!({"tran": "sata", "size": ">= 999"}), false),
    ] {
        assert_eq!(fits(&hints), Ok(expected), "{hints}");
    }
}

#[test]
fn every_serial_number_and_path_of_a_disk_matches() {
    for (hints, expected) in [
        (json!({"serial": "5002538E00000001"}), true),
        (json!({"serial": "s!= 5002538e00000001"}), false),
        (json!({"serialNumber": "5002538e00000002"}), false),
        (json!({"by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1.0"}), true),
        (json!({"deviceName": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1.0"}), true),
        (json!({"by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-2"}), false),
    ] {
        assert_eq!(fits(&hints), Ok(expected), "{hints}");
    }
}

#[test]
fn hints_in_metal3s_syntax_match_as_they_do_there() {
    for (hints, expected) in [
        (json!({"deviceName": "/dev/sda"}), true),
        (json!({"deviceName": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}), true),
        (json!({"deviceName": "/dev/sdb"}), false),
        (json!({"serialNumber": "S4EVNX0R", "model": "SAMSUNG"}), true),
        (json!({"minSizeGigabytes": 500}), true),
        (json!({"minSizeGigabytes": 501}), false),
        (json!({"wwn": "0x600508b1001c4d41"}), true),
        (json!({"wwnWithExtension": "0x600508b1001c4d41aabbccddeeff0011"}), true),
        (json!({"wwnVendorExtension": "0xaabbccddeeff0011"}), true),
        (json!({"wwnVendorExtension": "0xaabbccddeeff0012"}), false),
    ] {
        assert_eq!(fits(&hints), Ok(expected), "{hints}");
    }
}

#[test]
fn hints_that_are_not_understood_are_refused() {
    for hints in [
        json!({}),
        json!({"colour": "red"}),
        json!({"size": "big"}),
        json!({"size": "-1"}),
        json!({"size": 0}),
        json!({"size": "s== 5"}),
        json!({"size": "<range-in> 1 2"}),
        json!({"serial": ">= 5"}),
        json!({"serial": "=5"}),
        json!({"serial": "<inn> x"}),
        json!({"serial": "<in>"}),
        json!({"serial": ""}),
        json!({"serial": ["a"]}),
        json!({"serial": null}),
        json!({"rotational": "maybe"}),
    ] {
        assert!(fits(&hints).is_err(), "{hints}");
    }
}

#[test]
fn unknown_hint_leads_to_the_nearest_known_one() {
    let refused = |key: &str| fits(&json!({key: "1"})).unwrap_err();
    assert_eq!(refused("serail"), "the hint \"serail\" is unknown, did you mean \"serial\"?");
    assert!(refused("minsizegigabyte").ends_with("did you mean \"minSizeGigabytes\"?"));
    let of_none = refused("colour_of_the_lid");
    assert!(of_none.contains("expected one of model, vendor, serial"), "{of_none}");
    for (key, _) in KEYS {
        let error = fits(&json!({key: "1"})).err().unwrap_or_default();
        assert!(!error.contains("unknown"), "{error}");
    }
}

#[test]
fn a_disk_without_the_attribute_never_matches() {
    let hints = parsed(&json!({"serial": "s!= X"}));
    assert!(hints.matches(&disk()));
    assert!(!hints.matches(&Disk::default()));
}

#[test]
fn part_of_a_wwn_is_found_with_its_prefix_and_only_at_the_start() {
    let disk = Disk { wwn: Some("0x5000c500a1b2c3d4".into()), ..Disk::default() };
    for (hint, is_match) in [
        ("<in> 0x5000c5", true),
        ("<in> 5000C5", true),
        ("<in> a1b2", true),
        ("<in> 0xa1b2", false),
        ("s!= 5000c500a1b2c3d4", false),
        ("s< 0x6", true),
    ] {
        let hints = json!({"wwn": hint});
        assert_eq!(parsed(&hints).matches(&disk), is_match, "{hint}");
    }
    // A name of 16 digits has no extension.
    assert!(!parsed(&json!({"wwn_vendor_extension": "<in> 5000c5"})).matches(&disk));
}

#[test]
fn nvme_disk_without_eui_and_nguid_is_found_by_its_whole_name() {
    let name = "nvme.1b36-64656164-51454d55-00000001";
    let disk = Disk { wwn: Some(name.into()), ..Disk::default() };
    for key in ["wwn", "wwn_with_extension"] {
        assert!(parsed(&json!({key: name})).matches(&disk), "{key}");
        assert!(!parsed(&json!({key: "nvme.1b36-00"})).matches(&disk), "{key}");
    }
    assert!(!parsed(&json!({"wwn_vendor_extension": name})).matches(&disk));
}
