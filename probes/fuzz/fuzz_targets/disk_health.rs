//! Answers of disks about health and locks: SCSI log pages, ATA SMART, NVMe logs, TCG discovery.
#![no_main]

use std::sync::LazyLock;

const SATA: &str = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const SAS: &str = "sys/devices/pci0000:00/0000:03:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
const NVME: &str = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

/// VPD page 89h of an ATA disk that supports every question: words 48, 82, 84, 85, 217.
static IDENTIFY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut page = vec![0; 572];
    page[1] = 0x89;
    for (word, value) in [(48, 0x4001_u16), (82, 1), (84, 0x4020), (85, 1), (217, 1)] {
        page[60 + 2 * word..][..2].copy_from_slice(&value.to_le_bytes());
    }
    page
});

/// Identify Controller of an NVMe drive that supports security commands, and its list of protocols.
static CONTROLLER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut page = vec![0; 4096];
    page[256] = 1;
    page
});
const PROTOCOLS: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let (name, path) =
        [("sda", SATA), ("sda", SAS), ("nvme0n1", NVME), ("nvme0n1", NVME)][usize::from(form % 4)];
    let (entry, link) = (format!("sys/block/{name}"), path.replacen("sys", "-> ..", 1));
    let (size, page) = (format!("{path}/size"), format!("{path}/device/vpd_pg89"));
    let mut files: Vec<(&str, &[u8])> =
        vec![(&entry, link.as_bytes()), (&size, b"1000"), (&page, &IDENTIFY)];
    if form % 4 == 3 {
        // Directly to the discovery, which needs two questions before it.
        files.extend([
            ("kernel/nvme/nvme0/identify", &CONTROLLER[..]),
            ("kernel/nvme/nvme0/security-protocols", PROTOCOLS),
            ("kernel/nvme/nvme0/tcg-level-0", data),
        ]);
        drop(probes::block::block(&fuzz::machine(&files)));
        return;
    }
    fuzz::answered(&files, data, |machine| drop(probes::block::block(machine)));
});
