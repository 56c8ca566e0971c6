//! Which disk is written: the one that is named, the one that the hints match, or the only eligible one.
//!
//! Anything unclear is refused: no match, several matches without a rule for choosing one, a match that is
//! not eligible, an identity other than the expected one.

use formats::wwn;
use probes::block::Disk;

use super::hints::Hints;
use super::{Failure, describe};
use crate::api::{Code, DiskChoice, Expect, IfSeveral};

/// Chooses the disk to write.
///
/// `resolve` follows a path below `/dev` to its device file, if the report does not contain the path.
///
/// # Errors
/// `DISK_NONE`, `DISK_AMBIGUOUS`, `DISK_NOT_ELIGIBLE`, `DISK_CHANGED` (not the expected one), or
/// `INSTRUCTION_INVALID` (hints that cannot be understood).
pub fn choose<'a>(
    candidates: &'a [Disk],
    choice: Option<&DiskChoice>,
    expect: Option<&Expect>,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<&'a Disk, Failure> {
    let default = DiskChoice::default();
    let choice = choice.unwrap_or(&default);
    let if_several = choice.if_several.unwrap_or_default();
    let chosen = if let Some(device) = &choice.device {
        by_device(candidates, device, resolve)?
    } else if let Some(hints) = &choice.hints {
        let hints = Hints::parse(hints)
            .map_err(|message| Failure::new(Code::InstructionInvalid, message))?;
        let matching: Vec<&Disk> = candidates.iter().filter(|disk| hints.matches(disk)).collect();
        one_of(candidates, &matching, if_several, "match the hints")?
    } else {
        let all: Vec<&Disk> = candidates.iter().collect();
        one_of(candidates, &all, if_several, "are eligible")?
    };
    if let Some(expect) = expect {
        check_expected(chosen, expect)?;
    }
    Ok(chosen)
}

/// The disk that a path below `/dev` names.
fn by_device<'a>(
    candidates: &'a [Disk],
    device: &str,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<&'a Disk, Failure> {
    let is_safe = device.starts_with("/dev/")
        && !device.split('/').any(|part| part == "..")
        && !device.chars().any(|c| c.is_whitespace() || c.is_control());
    if !is_safe {
        return Err(Failure::new(
            Code::InstructionInvalid,
            format!("install.disk.device is {device:?}, expected a path below /dev"),
        ));
    }
    let named = |path: &str| {
        candidates
            .iter()
            .filter(|disk| {
                disk.device == path
                    || disk.by_path.as_deref() == Some(path)
                    || disk.by_id.iter().any(|id| id == path)
            })
            .collect::<Vec<_>>()
    };
    let mut found = named(device);
    if found.is_empty()
        && let Some(target) = resolve(device)
    {
        found = named(&target);
    }
    // A LUN and its paths share their names; the LUN is meant.
    let heads: Vec<&str> = found.iter().map(|disk| disk.name.as_str()).collect();
    found.retain(|disk| disk.multipath.as_deref().is_none_or(|head| !heads.contains(&head)));
    match found[..] {
        [disk] if disk.eligible => Ok(disk),
        [disk] => Err(not_eligible(&[disk])),
        [] => Err(Failure::new(
            Code::DiskNone,
            format!("there is no disk {device}; {}", seen(candidates)),
        )),
        _ => Err(ambiguous(&found, &format!("are named {device}"))),
    }
}

/// The one eligible disk among those that match.
fn one_of<'a>(
    candidates: &[Disk],
    matching: &[&'a Disk],
    if_several: IfSeveral,
    claim: &str,
) -> Result<&'a Disk, Failure> {
    let eligible: Vec<&'a Disk> = matching.iter().copied().filter(|disk| disk.eligible).collect();
    if let [disk] = eligible[..] {
        return Ok(disk);
    }
    if eligible.is_empty() {
        return Err(if matching.is_empty() {
            Failure::new(
                Code::DiskNone,
                format!("no disk matches what the instruction asks for; {}", seen(candidates)),
            )
            .advise("correct the hints or insert the missing disk; `run-coreos-installer inspect` lists the disks")
        } else {
            not_eligible(matching)
        });
    }
    // Disks of unknown size cannot be compared.
    let sizes: Option<Vec<u64>> = eligible.iter().map(|disk| disk.size_bytes).collect();
    let best_size = match if_several {
        IfSeveral::Refuse | IfSeveral::FirstByPath => None,
        IfSeveral::First => return eligible.first().copied().ok_or_else(no_disk),
        IfSeveral::Smallest => sizes.and_then(|sizes| sizes.into_iter().min()),
        IfSeveral::Largest => sizes.and_then(|sizes| sizes.into_iter().max()),
    };
    let is_best = |disk: &&Disk| best_size.is_some() && disk.size_bytes == best_size;
    let best: Vec<&'a Disk> = eligible.iter().copied().filter(is_best).collect();
    match best[..] {
        [disk] => Ok(disk),
        [] => Err(ambiguous(&eligible, claim)),
        _ => Err(ambiguous(&best, "are equally large")),
    }
}

fn no_disk() -> Failure {
    Failure::new(Code::DiskNone, "the machine has no disk")
}

fn not_eligible(disks: &[&Disk]) -> Failure {
    let reasons: Vec<String> = disks
        .iter()
        .take(16)
        .map(|disk| {
            let why = disk.not_eligible_because.join(", ");
            format!("{}: {}", describe(disk), if why.is_empty() { "not eligible" } else { &why })
        })
        .collect();
    Failure::new(
        Code::DiskNotEligible,
        format!("no disk can be installed on: {}", reasons.join("; ")),
    )
    .advise("fix what is listed above, or choose another disk")
}

fn ambiguous(disks: &[&Disk], claim: &str) -> Failure {
    let names: Vec<String> = disks.iter().take(16).map(|disk| describe(disk)).collect();
    Failure::new(
        Code::DiskAmbiguous,
        format!("{} disks {claim}: {}", disks.len(), names.join("; ")),
    )
    .advise("identify one by serial, WWN or /dev/disk/by-id, or set if_several")
}

/// The disks of the machine, in words.
fn seen(candidates: &[Disk]) -> String {
    if candidates.is_empty() {
        return "the machine has no disk".into();
    }
    let names: Vec<String> = candidates.iter().take(16).map(describe).collect();
    format!("the machine has {}", names.join("; "))
}

/// Whether the chosen disk is what the VIM expects.
fn check_expected(disk: &Disk, expect: &Expect) -> Result<(), Failure> {
    let mut differences = Vec::new();
    if let Some(serial) = &expect.serial
        && disk.serial.as_deref().map(str::trim) != Some(serial.trim())
    {
        differences.push(format!(
            "serial is {}, expected {serial:?}",
            disk.serial.as_ref().map_or_else(|| "not known".into(), |found| format!("{found:?}"))
        ));
    }
    if let Some(expected) = &expect.wwn
        && ![&disk.wwn, &disk.eui64, &disk.nguid]
            .into_iter()
            .flatten()
            .any(|found| wwn::is_same(found, expected))
    {
        differences.push(format!(
            "WWN is {}, expected {expected:?}",
            disk.wwn.as_ref().map_or_else(|| "not known".into(), |found| format!("{found:?}"))
        ));
    }
    if let Some(size_bytes) = expect.size_bytes
        && disk.size_bytes != Some(size_bytes)
    {
        let found = disk.size_bytes.map(|found| format!("{found} bytes"));
        let found = found.as_deref().unwrap_or("not known");
        differences.push(format!("size is {found}, expected {size_bytes}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Code::DiskChanged,
        format!("{} is not the expected disk: {}", disk.device, differences.join("; ")),
    )
    .advise("the disk was swapped or the VIM's record is out of date; inspect the node again"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn disk(name: &str, size_bytes: u64) -> Disk {
        Disk {
            name: name.into(),
            device: format!("/dev/{name}"),
            size_bytes: Some(size_bytes),
            serial: Some(format!("SERIAL-{name}")),
            by_id: vec![format!("/dev/disk/by-id/ata-{name}")],
            by_path: Some(format!("/dev/disk/by-path/pci-{name}")),
            eligible: true,
            ..Disk::default()
        }
    }

    #[test]
    fn a_name_that_a_lun_shares_with_its_paths_means_the_lun() {
        let name = "/dev/disk/by-id/wwn-0x600a0b80001111550000ee0000000001";
        let named = |disk: Disk| Disk { by_id: vec![name.into()], ..disk };
        let path = |name: &str| Disk {
            multipath: Some("dm-0".into()),
            eligible: false,
            ..named(disk(name, 1))
        };
        let disks = [named(disk("dm-0", 1)), path("sda"), path("sdb")];
        assert_eq!(pick(&disks, json!({"device": name})), Ok("dm-0".into()));
        assert_eq!(pick(&disks[1..], json!({"device": name})), Err(Code::DiskAmbiguous));
    }

    fn choice(value: serde_json::Value) -> DiskChoice {
        serde_json::from_value(value).unwrap()
    }

    fn pick(disks: &[Disk], value: serde_json::Value) -> Result<String, Code> {
        choose(disks, Some(&choice(value)), None, &|_| None)
            .map(|disk| disk.name.clone())
            .map_err(|failure| failure.code)
    }

    #[test]
    fn the_only_eligible_disk_is_chosen_without_hints() {
        let mut stick = disk("sdb", 8);
        stick.eligible = false;
        stick.not_eligible_because = vec!["live medium".into()];
        let disks = [disk("sda", 100), stick];
        assert_eq!(choose(&disks, None, None, &|_| None).unwrap().name, "sda");
    }

    #[test]
    fn two_eligible_disks_are_refused_without_a_rule_for_choosing_one() {
        let disks = [disk("sda", 100), disk("sdb", 50), disk("sdc", 200)];
        assert_eq!(pick(&disks, json!({})), Err(Code::DiskAmbiguous));
        assert_eq!(pick(&disks, json!({"if_several": "smallest"})), Ok("sdb".into()));
        assert_eq!(pick(&disks, json!({"if_several": "largest"})), Ok("sdc".into()));
        assert_eq!(pick(&disks, json!({"if_several": "first"})), Ok("sda".into()));
        let twins = [disk("sda", 100), disk("sdb", 100)];
        assert_eq!(pick(&twins, json!({"if_several": "largest"})), Err(Code::DiskAmbiguous));
    }

    #[test]
    fn disks_of_unknown_size_are_not_compared_by_size() {
        let disks = [disk("sda", 100), Disk { size_bytes: None, ..disk("sdb", 0) }];
        for if_several in ["smallest", "largest"] {
            let found = pick(&disks, json!({"if_several": if_several}));
            assert_eq!(found, Err(Code::DiskAmbiguous), "{if_several}");
        }
    }

    #[test]
    fn a_disk_is_found_by_each_of_its_names() {
        let disks = [disk("sda", 100), disk("sdb", 50)];
        for name in ["/dev/sdb", "/dev/disk/by-id/ata-sdb", "/dev/disk/by-path/pci-sdb"] {
            assert_eq!(pick(&disks, json!({"device": name})), Ok("sdb".into()), "{name}");
        }
        let resolved = choose(
            &disks,
            Some(&choice(json!({"device": "/dev/disk/by-diskseq/2"}))),
            None,
            &|_| Some("/dev/sdb".into()),
        );
        assert_eq!(resolved.unwrap().name, "sdb");
    }

    #[test]
    fn a_missing_or_ineligible_disk_is_refused() {
        let mut busy = disk("sda", 100);
        busy.eligible = false;
        let disks = [busy, disk("sdb", 50)];
        assert_eq!(pick(&disks, json!({"device": "/dev/sda"})), Err(Code::DiskNotEligible));
        assert_eq!(pick(&disks, json!({"device": "/dev/sdz"})), Err(Code::DiskNone));
        for bad in ["sda", "/dev/../etc/passwd", "/dev/a b", "--help"] {
            assert_eq!(pick(&disks, json!({"device": bad})), Err(Code::InstructionInvalid));
        }
        assert_eq!(pick(&[], json!({})), Err(Code::DiskNone));
    }

    #[test]
    fn hints_that_match_only_ineligible_disks_never_fall_back_to_another_disk() {
        let mut busy = disk("sda", 100);
        busy.eligible = false;
        let disks = [busy, disk("sdb", 50)];
        assert_eq!(
            pick(&disks, json!({"hints": {"serial": "SERIAL-sda"}})),
            Err(Code::DiskNotEligible)
        );
        assert_eq!(pick(&disks, json!({"hints": {"serial": "S-x"}})), Err(Code::DiskNone));
    }

    #[test]
    fn another_disk_than_the_expected_one_is_refused() {
        let disks = [disk("sda", 100)];
        let expect = |value| serde_json::from_value::<Expect>(value).unwrap();
        for (value, ok) in [
            (json!({"serial": "SERIAL-sda", "size_bytes": 100}), true),
            (json!({"serial": "SERIAL-sdb"}), false),
            (json!({"size_bytes": 101}), false),
            (json!({"wwn": "0x1"}), false),
        ] {
            let chosen = choose(&disks, None, Some(&expect(value.clone())), &|_| None);
            assert_eq!(chosen.is_ok(), ok, "{value}");
        }
    }
}
