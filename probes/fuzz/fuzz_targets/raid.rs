//! Answers of a RAID controller's firmware about drives and volumes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let files: &[(&str, &[u8])] = &[
        ("sys/bus/pci/drivers/megaraid_sas/0000:18:00.0/class", b"0x010400"),
        ("sys/bus/pci/devices/0000:18:00.0/host0/uevent", b""),
    ];
    fuzz::answered(files, data, |machine| drop(probes::block::raid_controllers(machine)));
});
