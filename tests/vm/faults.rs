//! A machine with a fault in each part that QEMU can break: every fault arrives at the lab VIM with the part's name, the
//! install is refused and writes nothing. The VIM then allows all faults but two cables, and the install goes on once these
//! are in their places.
//!
//! It boots because the BMC, the CPU model and the wrong clock are there from the start of a machine.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::arguments::{damaged_disk, option, words};
use crate::artifacts::Artifact;
use crate::bmc;
use crate::disk::{Disk, DiskKind, GIB, MIB, Namespace};
use crate::install::{LIVE, check, check_proved, instruction, nonce, start_lab, start_live};
use crate::job::{digest, write_old_disk};
use crate::lab::Lab;
use crate::machine::{Dimm, Machine, Slot};
use crate::outside::{Outside, RIGHT_PORT, SWITCH, WRONG_PORT};
use crate::qmp::Qmp;

/// MAC addresses of the port whose cable is pulled and of the port that receives LLDP frames.
const UNPLUGGED: &str = "b8:ce:f6:00:00:01";
const CABLED: &str = "b8:ce:f6:00:00:02";

/// Runs before the agent: asks for the faults that only a running system has, and waits until the cable is pulled. udev may
/// rename the port meanwhile, so each round looks for its address.
const PREPARE: &str = "#!/bin/sh
is_unplugged() {
  for port in /sys/class/net/*; do
    [ \"$(cat $port/address)\" = b8:ce:f6:00:00:01 ] || continue
    ip link set ${port##*/} up
    [ \"$(cat $port/carrier)\" != 0 ] || return 0
  done 2>/dev/null
  return 1
}
echo BREAK-IT
until is_unplugged; do sleep 0.2; done
locate_port() {
  for port in /sys/class/net/*; do
    [ \"$(cat $port/address 2>/dev/null)\" = b8:ce:f6:00:00:02 ] || continue
    /usr/local/bin/run-coreos-installer locate ${port##*/} --seconds 1 && return
  done
  return 1
}
until locate_port; do sleep 0.5; done
echo PORT-LOCATED 0
/usr/local/bin/run-coreos-installer locate chassis --seconds 2
echo CHASSIS-LOCATED $?
";

/// The machine, whose parts fail at once or by [`break_it`].
fn broken(folder: &Path, outside: &Outside) -> Result<Machine> {
    let more = more(folder, outside)?;
    // An Intel CPU, whose machine checks can report an error that needs no action.
    Ok(Machine { cpu: "Nehalem", slots: slots(), more, ..Machine::plain(2048, disks()) })
}

/// The disk to install on, one that predicts its failure, two with the same identity, one that will not answer.
fn disks() -> Vec<Disk> {
    let disk = |id, kind| Disk::new(id, 64 * MIB, 512, kind);
    let failing =
        Namespace { controller: "failing", serial: "S64GNE0R100001", n_controllers: 1, id: 1 };
    let model = ["SEAGATE", "ST1200MM0099"];
    let twin = || DiskKind::scsi("ZC1TWIN0", 0x5000_c500_a4b3_c2d1, model, 10_500, 1);
    vec![
        Disk { size_bytes: GIB, sector_bytes: 4096, ..Machine::target_disk() },
        disk("failing", DiskKind::Nvme(failing)),
        disk("twin-1", twin()),
        disk("twin-2", twin()),
        disk("silent", DiskKind::Virtio { serial: "SILENT-0" }),
    ]
}

/// Five slots: one empty, one with another size; together more memory than the guest has.
fn slots() -> Vec<Slot> {
    let dimm = |size_mib, serial| Some(Dimm { size_mib, serial, ..Dimm::SAMSUNG });
    let slot = |locator, dimm| Slot { locator, bank: "P0_Node0", dimm };
    vec![
        slot("DIMM_A1", dimm(1024, "39A0B1C1")),
        slot("DIMM_A2", dimm(1024, "39A0B1C2")),
        slot("DIMM_B1", dimm(1024, "39A0B1C3")),
        slot("DIMM_B2", dimm(2048, "39A0B1C4")),
        slot("DIMM_C1", None),
    ]
}

/// A clock years off, a BMC with a log, a disk with a sector that cannot be read, a port at a switch.
fn more(folder: &Path, outside: &Outside) -> Result<Vec<String>> {
    let sockets = outside.folder.display();
    let mut more = words("-rtc base=2019-01-01T00:00:00");
    option(&mut more, "-chardev", &format!("socket,id=bmc,path={sockets}/bmc,server=on,wait=off"));
    more.extend(words(
        "-device ipmi-bmc-extern,id=bmc0,chardev=bmc -device isa-ipmi-kcs,bmc=bmc0,ioport=0xca2",
    ));
    more.extend(damaged_disk(folder, ("worn", 64 * MIB, Some(0)), "serial=WORN-0")?);
    let cable = format!(
        "dgram,id=cable,local.type=unix,local.path={sockets}/port,\
         remote.type=unix,remote.path={sockets}/switch"
    );
    option(&mut more, "-netdev", &cable);
    let port = |id: &str, net: &str, mac| format!("e1000e,id={id},netdev={net},mac={mac},romfile=");
    option(&mut more, "-device", &port("cabled", "cable", CABLED));
    // Without DHCP: Ignition's initramfs goes on with the first port that has a lease.
    option(&mut more, "-netdev", "hubport,id=hub,hubid=1");
    option(&mut more, "-device", &port("unplugged", "hub", UNPLUGGED));
    Ok(more)
}

/// The faults that only a running machine can have; the last one lets the agent start.
fn break_it(qmp: &mut Qmp) -> Result<()> {
    // The reliability of the drive is degraded (NVM Express 2.0, SMART / Health Information, byte 0).
    let warning = json!({
        "path": "/machine/peripheral/failing", "property": "smart_critical_warning", "value": 4,
    });
    qmp.execute("qom-set", &warning)?;
    qmp.throttle("silent", 1)?;
    // Uncorrected, not fatal, found while memory was scrubbed (Intel SDM 3B §15.9.3.1): status, state, address, detail.
    qmp.monitor("mce -b 0 9 0xb1000000000000cf 0x5 0 0")?;
    qmp.set_link("unplugged", false)
}

/// Code of a finding, and what its locator or evidence must contain.
const FINDINGS: &[(&str, &str)] = &[
    ("disk.health.failing", "serial S64GNE0R100001"),
    ("disk.duplicate_identity", "0x5000c500a4b3c2d1"),
    ("memory.dimm.mismatch", "DIMM_B2"),
    ("memory.lost", "5120 MiB are installed"),
    ("memory.event_log", bmc::DIMM_SENSOR),
    ("bmc.sensor", "Inlet Temp"),
    ("bmc.event_log", "PS2"),
    ("power.supply", "PS2"),
    ("cpu.machine_check", "machine check"),
    ("disk.unreadable", "serial SILENT-0"),
    ("disk.unreadable", "serial WORN-0"),
];

/// Code of a finding, and the serial number of the part that is its most likely cause.
const FAULTS: &[(&str, &str)] = &[
    ("disk.health.failing", "S64GNE0R100001"),
    ("disk.unreadable", "SILENT-0"),
    ("disk.unreadable", "WORN-0"),
    ("memory.event_log", "39A0B1C4"),
    ("memory.dimm.mismatch", "39A0B1C4"),
];

/// What is missing among the findings of a report or result.
fn missing(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().cloned().unwrap_or_default();
    let is_there = |code: &str, part: &str| {
        findings.iter().any(|finding| {
            finding["code"] == code
                && (finding["locator"].to_string() + &finding["evidence"].to_string())
                    .contains(part)
        })
    };
    let absent = FINDINGS.iter().filter(|(code, part)| !is_there(code, part));
    absent.map(|(code, part)| format!("{code} with {part}")).collect()
}

/// The findings that no fault with the expected first suspect explains.
fn not_blamed(report: &Value) -> Vec<String> {
    let faults = report["faults"].as_array().cloned().unwrap_or_default();
    let is_there = |code: &str, serial: &str| {
        faults.iter().any(|fault| {
            let mut evidence = fault["evidence"].as_array().into_iter().flatten();
            fault["suspects"][0]["fru"]["serial"] == serial
                && evidence.any(|evidence| evidence["finding"] == code)
        })
    };
    let absent = FAULTS.iter().filter(|(code, serial)| !is_there(code, serial));
    absent.map(|(code, serial)| format!("{serial} for {code}")).collect()
}

/// Digests of all disks.
fn digests(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let names = ["target", "failing", "twin-1", "twin-2", "silent", "worn"];
    names.iter().map(|name| digest(&folder.join(format!("{name}.raw")))).collect()
}

/// Most of its time is waits that are limits of the agent: 60 s for udev, which the silent disk blocks, 31 s for LLDP frames, and
/// the growing pause before a refused instruction is asked for again.
#[test]
fn a_broken_machine_is_reported_part_by_part_and_installed_only_when_the_vim_allows_it()
-> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_4096)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    order["install"]["existing_data"] = json!("wipe");
    let lab = start_lab("faults", &proof, &order, "")?;
    let folder = &lab.folder;
    write_old_disk(&folder.join("target.raw"), GIB)?;
    let outside = Outside::new()?;
    outside.serve_switch()?;
    let mut live = start_live(&lab, &broken(folder, &outside)?, "", PREPARE)?;
    live.wait_for("BREAK-IT")?;
    let before = digests(folder)?;
    let mut qmp = live.qmp()?;
    break_it(&mut qmp)?;
    live.wait_for("PORT-LOCATED 0")?;
    live.wait_for("CHASSIS-LOCATED 0")?;
    let lit = outside.identified.lock().map_err(|_| anyhow!("the controller panicked"))?.clone();
    ensure!(lit.first() == Some(&2), "the light of the chassis was asked to blink for {lit:?} s");

    let refused = lab.wait_for("result", LIVE, |_| true)?;
    check_refused(&refused)?;
    let report = lab.sent("report")?;
    ensure!(missing(&report).is_empty(), "the report lacks {:#?}", missing(&report));
    ensure!(not_blamed(&report).is_empty(), "the report does not blame {:#?}", not_blamed(&report));
    check_disks(&report)?;
    check_port(&report)?;
    check_neighbour(&refused)?;
    live.wait_for("(serial S64GNE0R100001): the drive reports critical warnings")?;
    ensure!(digests(folder)? == before, "a disk has changed");

    qmp.throttle("silent", 0)?;
    order["install"]["block_on"] = json!("never");
    order["install"]["block_also"] = json!(["nic.no_carrier", "expectation.mismatch"]);
    let wired_to = format!("{SWITCH} port {RIGHT_PORT}");
    order["expect"] = json!({"interface": {"mac": CABLED, "wired_to": wired_to}});
    lab.put("/lab/default/instruction", &order)?;
    let refused = refused_with(&lab, RIGHT_PORT)?;
    check_cables(&refused, &lab.sent("report")?)?;
    ensure!(digests(folder)? == before, "a disk has changed");

    // Nobody changes the instruction from here on.
    outside.is_recabled.store(true, Ordering::SeqCst);
    qmp.set_link("unplugged", true)?;
    live.wait_for_end()?;
    check_proved(&lab)?;
    ensure!(digests(folder)?[1..] == before[1..], "another disk than the target has changed");
    Ok(())
}

/// The result of the blocked install.
fn check_refused(result: &Value) -> Result<()> {
    check(result, &json!({"outcome": "refused", "code": "FINDINGS", "disk_state": "untouched"}))?;
    let message = result["message"].as_str().unwrap_or_default();
    ensure!(message.contains("S64GNE0R100001"), "the message is {message}");
    let clock = of_code(result, "os.clock_skew");
    let evidence = clock[0]["evidence"].as_str().unwrap_or_default();
    // systemd moves the clock to the time of its own build at least.
    let seconds = evidence.rsplit(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    ensure!(seconds > Some(86_400), "the findings about the clock are {clock:#}");
    Ok(())
}

/// Waits for the result of an install that findings block, whose message contains `text`.
pub(crate) fn refused_with(lab: &Lab, text: &str) -> Result<Value> {
    refused_for(lab, text, |code| code == "FINDINGS")
}

/// Waits for the result of a refused install whose code is one of these and whose message contains `text`.
pub(crate) fn refused_for(
    lab: &Lab,
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Value> {
    lab.wait_for("result", LIVE, |result| {
        let value = |key: &str| result[key].as_str().unwrap_or_default();
        is_wanted(value("code")) && value("message").contains(text)
    })
}

/// The findings of a report or result with this code.
pub(crate) fn of_code(document: &Value, code: &str) -> Value {
    let findings = document["findings"].as_array().into_iter().flatten();
    findings.filter(|finding| finding["code"] == code).cloned().collect()
}

/// The result of the install that only the two cables block: the port at the wrong port of the switch is named.
fn check_cables(result: &Value, report: &Value) -> Result<()> {
    let name = name_of(report, CABLED)?;
    let found = of_code(result, "expectation.mismatch");
    let evidence =
        format!("wired to is {SWITCH} port {WRONG_PORT}, expected {SWITCH} port {RIGHT_PORT}");
    ensure!(
        found[0]["locator"] == format!("port {name}") && found[0]["evidence"] == evidence.as_str(),
        "the deviations are {found:#}, expected one of port {name}"
    );
    let message = result["message"].as_str().unwrap_or_default();
    ensure!(message.contains("nic.no_carrier"), "the message is {message}");
    ensure!(!message.contains("S64GNE0R100001"), "the VIM allows other faults: {message}");
    check(result, &json!({"disk_state": "untouched"}))
}

/// The kernel's name of the port with this MAC address.
fn name_of<'a>(report: &'a Value, mac: &str) -> Result<&'a str> {
    let ports = report["network"]["interfaces"].as_array().context("the report has no ports")?;
    let port = ports.iter().find(|port| port["permanent_mac"] == mac);
    port.and_then(|port| port["name"].as_str()).context("no port with that address")
}

/// The disks that cannot be read may not be installed on, and do not hide the others.
fn check_disks(report: &Value) -> Result<()> {
    let disks = report["block"]["disks"].as_array().context("the report has no disks")?;
    for serial in ["WORN-0", "SILENT-0", "ZC1TWIN0"] {
        let mut of = disks.iter().filter(|disk| disk["serial"] == serial).peekable();
        ensure!(of.peek().is_some(), "no disk {serial}");
        ensure!(of.all(|disk| disk["eligible"] == false), "{serial} is eligible: {disks:#?}");
    }
    let target = disks.iter().find(|disk| disk["serial"] == "TARGET-0");
    ensure!(target.is_some_and(|disk| disk["eligible"] == true), "the target is not: {disks:#?}");
    Ok(())
}

/// The port whose cable is pulled: its name is the kernel's, so it is found by its MAC address.
fn check_port(report: &Value) -> Result<()> {
    let name = name_of(report, UNPLUGGED)?;
    let of_links = of_code(report, "nic.no_carrier");
    let locator = of_links[0]["locator"].as_str();
    ensure!(
        of_links[1].is_null() && locator.is_some_and(|locator| locator.starts_with(name)),
        "the findings about links are {of_links:#}, expected one about {name}"
    );
    Ok(())
}

/// The switch port at the other end of the cable.
fn check_neighbour(result: &Value) -> Result<()> {
    let neighbours = result["neighbours"].to_string();
    for name in [SWITCH, WRONG_PORT] {
        ensure!(neighbours.contains(name), "no {name} among the neighbours {neighbours}");
    }
    Ok(())
}
