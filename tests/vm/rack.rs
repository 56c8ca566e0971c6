//! Four like machines; one breaks. Their captures are `fixtures/rack/`, from which docs/broken-machine.md is made
//! (`make rack`).

use anyhow::{Result, ensure};

use crate::arguments::damaged_disk;
use crate::artifacts::test_folder;
use crate::boot::start_tiny;
use crate::disk::{Disk, DiskKind, GIB, MIB, Namespace};
use crate::machine::{Dimm, Machine, Product, Slot};

/// Size of the disk whose middle breaks.
const DATA_BYTES: u64 = 512 * MIB;
/// A page in the middle of that disk begins with this sector.
const BAD_SECTOR: u64 = DATA_BYTES / 2 / 512;

/// What `check` prints when nothing is wrong.
const HEALTHY: &str = "findings (0 critical, 0 warnings, 0 info)";

const SCRIPT: &str = "cd /results
for port in /sys/class/net/eth*; do
  n=0
  until [ \"$(cat $port/carrier)\" = 1 ] || [ $n -ge 60 ]; do sleep 0.5; n=$((n + 1)); done
done
run-coreos-installer check >check.txt; echo CHECK $?
run-coreos-installer capture -o capture.tar.zst 2>log; echo CAPTURE $?
";

/// A text with the number of a machine in place of `#`.
fn numbered(text: &str, number: usize) -> &'static str {
    text.replace('#', &number.to_string()).leak()
}

/// The machine; if it is broken, its drive predicts its failure, a sector of its disk cannot be read, one DIMM was replaced by
/// a smaller one, and its firmware is older.
fn machine(number: usize, is_broken: bool) -> Machine {
    let text = |text: &str| numbered(text, number);
    let serial = text("S64GNE0R10000#");
    let nvme = Namespace { controller: "system", serial, n_controllers: 1, id: 1 };
    let system = Disk::new("system", GIB, 512, DiskKind::Nvme(nvme));
    let mut machine = Machine::plain(2048, vec![system]);
    machine.ports[0].mac = text("52:54:00:aa:00:0#");
    let serial = text("7XJ4KZ#");
    let mut product = Product {
        serial,
        uuid: text("4c4c4544-0058-4a10-8034-b7c04f4b5a3#"),
        board_serial: serial,
        chassis_serial: serial,
        asset_tag: text("worker-#"),
        ..Product::POWEREDGE
    };
    // Four DIMMs, which together are the guest's memory.
    machine.slots = ["DIMM_A1", "DIMM_A2", "DIMM_B1", "DIMM_B2"]
        .into_iter()
        .zip(["39A0B#01", "39A0B#02", "39A0B#03", "39A0B#04"])
        .map(|(locator, serial)| {
            let dimm = Dimm { size_mib: 512, serial: text(serial), ..Dimm::SAMSUNG };
            Slot { locator, bank: "P0_Node0", dimm: Some(dimm) }
        })
        .collect();
    if is_broken {
        (product.bios_version, product.bios_date) = ("2.18.1", "02/21/2024");
        machine.slots[3].dimm = Some(Dimm { size_mib: 256, serial: "F1C2D3E4", ..Dimm::MICRON });
        // The reliability of the drive is degraded.
        machine.more.extend(["-global", "nvme.smart_critical_warning=4"].map(str::to_owned));
    }
    machine.product = Some(product);
    machine
}

/// Boots the machine, and expects this exit status of `check`, and these words in what it prints.
fn capture(number: usize, is_broken: bool, status: i32, parts: &[&str]) -> Result<()> {
    let suffix = if is_broken { "-broken" } else { "" };
    let folder = test_folder(&format!("rack_worker-{number}{suffix}"))?;
    let mut machine = machine(number, is_broken);
    let data = ("data", DATA_BYTES, is_broken.then_some(BAD_SECTOR));
    machine.more.splice(..0, damaged_disk(&folder, data, &format!("serial=ZC1DATA{number}"))?);
    let mut guest = start_tiny(&folder, &machine, SCRIPT)?;
    guest.wait_for(&format!("CHECK {status}"))?;
    guest.wait_for("CAPTURE 0")?;
    guest.wait_for_end()?;
    let text = std::fs::read_to_string(guest.results()?.join("check.txt"))?;
    for part in parts {
        ensure!(text.contains(part), "check does not print {part:?}:\n{text}");
    }
    Ok(())
}

#[test]
fn three_like_machines_are_healthy() -> Result<()> {
    (1..=3).try_for_each(|number| capture(number, false, 0, &[HEALTHY]))
}

#[test]
fn parts_of_a_machine_that_broke_are_named() -> Result<()> {
    capture(4, false, 0, &[HEALTHY])?;
    capture(4, true, 7, &["S64GNE0R100004", "ZC1DATA4", "DIMM_B2", "F1C2D3E4"])
}
