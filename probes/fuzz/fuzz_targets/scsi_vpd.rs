//! Vital product data of a SCSI disk, and the identity that udev derives from it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [page_80, page_83, wwid, inquiry] = fuzz::pieces(data);
    let block = probes::block::block(&fuzz::machine(&[
        ("sys/block/sda/size", b"1000"),
        ("sys/block/sda/dev", b"8:0"),
        ("sys/block/sda/device/vendor", b"ATA"),
        ("sys/block/sda/device/vpd_pg80", page_80),
        ("sys/block/sda/device/vpd_pg83", page_83),
        ("sys/block/sda/device/wwid", wwid),
        ("sys/block/sda/device/inquiry", inquiry),
    ]));
    assert_eq!(block.disks.len(), 1);
});
