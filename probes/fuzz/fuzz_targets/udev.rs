//! udev's database of a disk and of a network interface.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [disk, interface] = fuzz::pieces(data);
    let machine = fuzz::machine(&[
        ("sys/block/sda/size", b"1000"),
        ("sys/block/sda/dev", b"8:0"),
        ("sys/block/sda/device/vendor", b"ATA"),
        ("sys/class/net/eth0/ifindex", b"2"),
        ("run/udev/data/b8:0", disk),
        ("run/udev/data/n2", interface),
    ]);
    assert_eq!(probes::block::block(&machine).disks.len(), 1);
    let _ = probes::network::network(&machine);
});
