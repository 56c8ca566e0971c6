//! Four like machines; one breaks. Their captures are `fixtures/rack/`, from which docs/broken-machine.md is made
//! (`make rack`).

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agent::agent_files;
use crate::artifacts::test_folder;
use crate::boot;
use crate::disk::{Disk, DiskKind, Namespace};
use crate::guest::Guest;
use crate::machine::{Dimm, Machine, Port, Product, Slot};

const MIB: u64 = 1 << 20;
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

/// What distinguishes a machine of the rack from the others.
#[derive(Debug, Clone, Copy)]
struct Worker {
    name: &'static str,
    serial: &'static str,
    uuid: &'static str,
    mac: &'static str,
    disks: [&'static str; 2],
    dimms: [&'static str; 4],
}

const WORKERS: [Worker; 4] = [
    Worker {
        name: "worker-1",
        serial: "7XJ4KZ1",
        uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a31",
        mac: "52:54:00:aa:00:01",
        disks: ["S64GNE0R100001", "ZC1DATA1"],
        dimms: ["39A0B101", "39A0B102", "39A0B103", "39A0B104"],
    },
    Worker {
        name: "worker-2",
        serial: "7XJ4KZ2",
        uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a32",
        mac: "52:54:00:aa:00:02",
        disks: ["S64GNE0R100002", "ZC1DATA2"],
        dimms: ["39A0B201", "39A0B202", "39A0B203", "39A0B204"],
    },
    Worker {
        name: "worker-3",
        serial: "7XJ4KZ3",
        uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a33",
        mac: "52:54:00:aa:00:03",
        disks: ["S64GNE0R100003", "ZC1DATA3"],
        dimms: ["39A0B301", "39A0B302", "39A0B303", "39A0B304"],
    },
    Worker {
        name: "worker-4",
        serial: "7XJ4KZ4",
        uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a34",
        mac: "52:54:00:aa:00:04",
        disks: ["S64GNE0R100004", "ZC1DATA4"],
        dimms: ["39A0B401", "39A0B402", "39A0B403", "39A0B404"],
    },
];

/// The machine; if it is broken, its drive predicts its failure, a sector of its disk cannot be read, one DIMM was replaced by
/// a smaller one, and its firmware is older.
fn machine(worker: &Worker, is_broken: bool, image: &Path) -> Machine {
    let nvme = Namespace { controller: "system", serial: worker.disks[0], n_controllers: 1, id: 1 };
    let system = Disk {
        id: "system",
        size_bytes: 1024 * MIB,
        sector_bytes: 512,
        kind: DiskKind::Nvme(nvme),
    };
    let plain = Machine::plain(2048, vec![system]);
    let ports = vec![Port { mac: worker.mac, ..plain.ports[0].clone() }];
    let more = more(worker, is_broken, image);
    Machine {
        product: Some(product(worker, is_broken)),
        slots: slots(worker, is_broken),
        ports,
        more,
        ..plain
    }
}

fn product(worker: &Worker, is_broken: bool) -> Product {
    Product {
        vendor: "Dell Inc.",
        name: "PowerEdge R650",
        family: "PowerEdge",
        sku: "SKU=0912;ModelName=PowerEdge R650",
        serial: worker.serial,
        uuid: worker.uuid,
        bios_vendor: "Dell Inc.",
        bios_version: if is_broken { "2.18.1" } else { "2.19.1" },
        bios_date: if is_broken { "02/21/2024" } else { "06/06/2024" },
        board: "0PYXKY",
        board_serial: worker.serial,
        chassis_serial: worker.serial,
        asset_tag: worker.name,
    }
}

/// Four DIMMs, which together are the guest's memory.
fn slots(worker: &Worker, is_broken: bool) -> Vec<Slot> {
    let slot = |(locator, serial): (&'static str, &'static str)| Slot {
        locator,
        bank: "P0_Node0",
        dimm: Some(Dimm {
            size_mib: 512,
            speed_mt_s: 3200,
            manufacturer: "Samsung",
            serial,
            part_number: "M393A2K43DB3-CWE",
        }),
    };
    let names = ["DIMM_A1", "DIMM_A2", "DIMM_B1", "DIMM_B2"];
    let mut slots: Vec<Slot> = names.into_iter().zip(worker.dimms).map(slot).collect();
    if is_broken {
        slots[3].dimm = Some(Dimm {
            size_mib: 256,
            speed_mt_s: 2933,
            manufacturer: "Micron",
            serial: "F1C2D3E4",
            part_number: "18ASF1G72PZ",
        });
    }
    slots
}

/// A disk for data, and what breaks in a running machine.
fn more(worker: &Worker, is_broken: bool, image: &Path) -> Vec<String> {
    let file = image.display();
    let disk = if is_broken {
        format!(
            "driver=blkdebug,node-name=data,image.driver=file,image.filename={file},inject-error.0.event=none,\
             inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector={BAD_SECTOR}"
        )
    } else {
        format!("driver=file,node-name=data,filename={file}")
    };
    let mut more = vec![
        "-blockdev".to_owned(),
        disk,
        "-device".to_owned(),
        format!("virtio-blk-pci,drive=data,serial={}", worker.disks[1]),
    ];
    if is_broken {
        // The reliability of the drive is degraded.
        more.extend(["-global", "nvme.smart_critical_warning=4"].map(str::to_owned));
    }
    more
}

/// Boots the machine, and expects this exit status of `check`, and these words in what it prints.
fn capture(worker: &Worker, is_broken: bool, status: i32, parts: &[&str]) -> Result<()> {
    let suffix = if is_broken { "-broken" } else { "" };
    let folder = test_folder(&format!("rack_{}{suffix}", worker.name))?;
    let image = folder.join("data.raw");
    File::create(&image)?.set_len(DATA_BYTES)?;
    let machine = machine(worker, is_broken, &image);
    let boot = boot::tiny("guest", &folder, &machine, SCRIPT, &agent_files()?)?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(4))?;
    guest.wait_for(&format!("CHECK {status}"))?;
    guest.wait_for("CAPTURE 0")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let text = std::fs::read_to_string(results.join("check.txt"))?;
    for part in parts {
        ensure!(text.contains(part), "check does not print {part:?}:\n{text}");
    }
    Ok(())
}

#[test]
fn three_like_machines_are_healthy() -> Result<()> {
    WORKERS[..3].iter().try_for_each(|worker| capture(worker, false, 0, &[HEALTHY]))
}

#[test]
fn parts_of_a_machine_that_broke_are_named() -> Result<()> {
    let worker = &WORKERS[3];
    capture(worker, false, 0, &[HEALTHY])?;
    let [drive, disk] = worker.disks;
    capture(worker, true, 7, &[drive, disk, "DIMM_B2", "F1C2D3E4"])
}
