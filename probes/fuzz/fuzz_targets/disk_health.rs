//! What disks answer of their health: SCSI log pages, ATA SMART, NVMe logs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let sata: &[(&str, &[u8])] = &[
        ("sys/block/sda/size", b"1000"),
        ("sys/block/sda/dev", b"8:0"),
        ("sys/block/sda/device/vendor", b"ATA"),
    ];
    let sas: &[(&str, &[u8])] = &[
        ("sys/block/sda/size", b"1000"),
        ("sys/block/sda/dev", b"8:0"),
        ("sys/block/sda/device/vendor", b"SEAGATE"),
        ("sys/block/sda/device/sas_address", b"0x5000c500a1b2c3d4"),
    ];
    let nvme: &[(&str, &[u8])] = &[
        ("sys/block/nvme0n1/size", b"1000"),
        ("sys/block/nvme0n1/dev", b"259:0"),
        ("sys/block/nvme0n1/device/model", b"X"),
        ("sys/class/nvme/nvme0/model", b"X"),
        ("sys/class/nvme/nvme0/dev", b"240:0"),
    ];
    let files = [sata, sas, nvme][usize::from(form % 3)];
    fuzz::answered(files, data, |machine| drop(probes::block::block(machine)));
});
