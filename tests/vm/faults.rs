//! A machine with a fault in each part that QEMU can break: every fault arrives at the lab VIM with the part's name, the
//! install is refused and writes nothing. The VIM then allows all faults but two cables, and the install goes on once these
//! are in their places.
//!
//! It boots because the BMC, the CPU model and the wrong clock are there from the start of a machine.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::artifacts::Artifact;
use crate::bmc;
use crate::disk::{Disk, DiskKind, Namespace};
use crate::install::{LIVE, check_proved, instruction_for, nonce, start_lab_with, start_live_with};
use crate::job::{digest, write_old_disk_of};
use crate::lab::Lab;
use crate::machine::{Dimm, Machine, Slot};
use crate::outside::{Outside, RIGHT_PORT, SWITCH, WRONG_PORT};
use crate::qmp::Qmp;

const MIB: u64 = 1 << 20;
/// MAC addresses of the port whose cable is pulled and of the port that receives LLDP frames.
const UNPLUGGED: &str = "b8:ce:f6:00:00:01";
const CABLED: &str = "b8:ce:f6:00:00:02";
/// The sector that cannot be read on the disk with a bad sector.
const BAD_SECTOR: u64 = 0;

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
fn broken(folder: &Path, outside: &Outside) -> Machine {
    let plain = Machine::plain(2048, disks());
    Machine {
        // An Intel CPU, whose machine checks can report an error that needs no action.
        cpu: "Nehalem",
        slots: slots(),
        more: more(folder, outside),
        ..plain
    }
}

/// The disk to install on, one that predicts its failure, two with the same identity, one that will not answer.
fn disks() -> Vec<Disk> {
    let disk = |id, kind| Disk { id, size_bytes: 64 * MIB, sector_bytes: 512, kind };
    let failing =
        Namespace { controller: "failing", serial: "S64GNE0R100001", n_controllers: 1, id: 1 };
    let twin = || DiskKind::Scsi {
        serial: "ZC1TWIN0",
        wwn: 0x5000_c500_a4b3_c2d1,
        vendor: "SEAGATE",
        product: "ST1200MM0099",
        rotation: 10_500,
        n_paths: 1,
    };
    vec![
        target(),
        disk("failing", DiskKind::Nvme(failing)),
        disk("twin-1", twin()),
        disk("twin-2", twin()),
        disk("silent", DiskKind::Virtio { serial: "SILENT-0" }),
    ]
}

fn target() -> Disk {
    Disk { size_bytes: 1 << 30, sector_bytes: 4096, ..Machine::target_disk() }
}

/// Five slots: one empty, one with another size; together more memory than the guest has.
fn slots() -> Vec<Slot> {
    let dimm = |size_mib, serial| Dimm {
        size_mib,
        speed_mt_s: 3200,
        manufacturer: "Samsung",
        serial,
        part_number: "M393A2K43DB3-CWE",
    };
    let slot = |locator, dimm| Slot { locator, bank: "P0_Node0", dimm };
    vec![
        slot("DIMM_A1", Some(dimm(1024, "39A0B1C1"))),
        slot("DIMM_A2", Some(dimm(1024, "39A0B1C2"))),
        slot("DIMM_B1", Some(dimm(1024, "39A0B1C3"))),
        slot("DIMM_B2", Some(dimm(2048, "39A0B1C4"))),
        slot("DIMM_C1", None),
    ]
}

/// A clock years off, a BMC with a log, a disk with a sector that cannot be read, a port at a switch.
fn more(folder: &Path, outside: &Outside) -> Vec<String> {
    let (image, sockets) = (folder.join("worn.raw"), outside.folder.display());
    let bad = format!(
        "driver=blkdebug,node-name=worn,image.driver=file,image.filename={},\
         inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector={BAD_SECTOR}",
        image.display()
    );
    [
        ["-rtc", "base=2019-01-01T00:00:00"].map(str::to_owned),
        ["-chardev".to_owned(), format!("socket,id=bmc,path={sockets}/bmc,server=on,wait=off")],
        ["-device", "ipmi-bmc-extern,id=bmc0,chardev=bmc"].map(str::to_owned),
        ["-device", "isa-ipmi-kcs,bmc=bmc0,ioport=0xca2"].map(str::to_owned),
        ["-blockdev".to_owned(), bad],
        ["-device", "virtio-blk-pci,drive=worn,serial=WORN-0"].map(str::to_owned),
        [
            "-netdev".to_owned(),
            format!(
                "dgram,id=cable,local.type=unix,local.path={sockets}/port,\
                 remote.type=unix,remote.path={sockets}/switch"
            ),
        ],
        ["-device".to_owned(), format!("e1000e,id=cabled,netdev=cable,mac={CABLED},romfile=")],
        // Without DHCP: Ignition's initramfs goes on with the first port that has a lease.
        ["-netdev", "hubport,id=hub,hubid=1"].map(str::to_owned),
        ["-device".to_owned(), format!("e1000e,id=unplugged,netdev=hub,mac={UNPLUGGED},romfile=")],
    ]
    .concat()
}

/// The faults that only a running machine can have; the last one lets the agent start.
fn break_it(qmp: &mut Qmp) -> Result<()> {
    // The reliability of the drive is degraded.
    set_warning(qmp, 4)?;
    throttle(qmp, 1)?;
    // Uncorrected, not fatal, found while memory was scrubbed (Intel SDM 3B §15.9.3.1): status, state, address, detail.
    let check = json!({"command-line": "mce -b 0 9 0xb1000000000000cf 0x5 0 0"});
    qmp.execute("human-monitor-command", &check)?;
    qmp.execute("set_link", &json!({"name": "unplugged", "up": false}))?;
    Ok(())
}

/// Sets the critical warnings of the `NVMe` drive (NVM Express 2.0, SMART / Health Information, byte 0).
fn set_warning(qmp: &mut Qmp, warnings: u8) -> Result<()> {
    let property = json!({
        "path": "/machine/peripheral/failing", "property": "smart_critical_warning", "value": warnings,
    });
    qmp.execute("qom-set", &property)?;
    Ok(())
}

/// Limits reads of the silent disk to this many bytes a second; 0 is no limit.
fn throttle(qmp: &mut Qmp, bytes_a_second: u64) -> Result<()> {
    let limits = json!({
        "device": "silent", "bps": 0, "bps_rd": bytes_a_second, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0,
    });
    qmp.execute("block_set_io_throttle", &limits)?;
    Ok(())
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
    let mut order = instruction_for(&proof, Artifact::Image4096, 4096)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    order["install"]["existing_data"] = json!("wipe");
    let (folder, lab) = start_lab_with("faults", &proof, &order, &[])?;
    write_old_disk_of(&folder.join("target.raw"), target().size_bytes)?;
    std::fs::File::create(folder.join("worn.raw"))?.set_len(64 * MIB)?;
    let outside = Outside::new()?;
    outside.serve_switch()?;
    let machine = broken(&folder, &outside);
    let mut live = start_live_with(&folder, &machine, &lab, &[], PREPARE)?;
    live.wait_for("BREAK-IT")?;
    let before = digests(&folder)?;
    let mut qmp = live.qmp()?;
    break_it(&mut qmp)?;
    live.wait_for("PORT-LOCATED 0")?;
    live.wait_for("CHASSIS-LOCATED 0")?;
    let lit = outside.identified.lock().map_err(|_| anyhow!("the controller panicked"))?.clone();
    ensure!(lit.first() == Some(&2), "the light of the chassis was asked to blink for {lit:?} s");

    let refused = lab.sent("result", LIVE)?;
    lab.keep(&folder)?;
    check_refused(&refused)?;
    let report = lab.sent("report", Duration::ZERO)?;
    ensure!(missing(&report).is_empty(), "the report lacks {:#?}", missing(&report));
    ensure!(not_blamed(&report).is_empty(), "the report does not blame {:#?}", not_blamed(&report));
    check_disks(&report)?;
    check_port(&report)?;
    check_neighbour(&refused)?;
    live.wait_for("(serial S64GNE0R100001): the drive reports critical warnings")?;
    ensure!(digests(&folder)? == before, "a disk has changed");

    throttle(&mut qmp, 0)?;
    order["install"]["block_on"] = json!("never");
    order["install"]["block_also"] = json!(["nic.no_carrier", "expectation.mismatch"]);
    let wired_to = format!("{SWITCH} port {RIGHT_PORT}");
    order["expect"] = json!({"interface": {"mac": CABLED, "wired_to": wired_to}});
    lab.put("/lab/default/instruction", &order)?;
    let refused = refused_with(&lab, RIGHT_PORT)?;
    lab.keep(&folder)?;
    check_cables(&refused, &lab.sent("report", Duration::ZERO)?)?;
    ensure!(digests(&folder)? == before, "a disk has changed");

    // Nobody changes the instruction from here on.
    outside.is_recabled.store(true, Ordering::SeqCst);
    qmp.execute("set_link", &json!({"name": "unplugged", "up": true}))?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    check_proved(&lab)?;
    ensure!(digests(&folder)?[1..] == before[1..], "another disk than the target has changed");
    Ok(())
}

/// The result of the blocked install.
fn check_refused(result: &Value) -> Result<()> {
    ensure!(
        result["outcome"] == "refused"
            && result["code"] == "FINDINGS"
            && result["disk_state"] == "untouched",
        "the result says {result:#}"
    );
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
    let until = Instant::now() + LIVE;
    loop {
        let result = lab.sent("result", LIVE)?;
        let value = |key: &str| result[key].as_str().unwrap_or_default();
        if is_wanted(value("code")) && value("message").contains(text) {
            return Ok(result);
        }
        ensure!(Instant::now() < until, "no result contains {text}, the last one is {result:#}");
        std::thread::sleep(Duration::from_secs(1));
    }
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
    ensure!(result["disk_state"] == "untouched", "the result says {result:#}");
    Ok(())
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
