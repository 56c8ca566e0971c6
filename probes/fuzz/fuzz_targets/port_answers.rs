//! Answers of a port's driver and module: ethtool netlink, module memory, driver, RSS, DCB.
#![no_main]

/// `RTM_NEWLINK` of `eth0` with index 2 and a MAC.
const LINK: &[u8] = &[
    56, 0, 0, 0, 16, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
    0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0x10, 1, 0, 0, 0, 0, 0, // ifinfomsg
    9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, // IFLA_IFNAME
    10, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 0, // IFLA_ADDRESS
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = (formats::dhcp::fields(&text), formats::dhcp::dhclient6(&text));
    let files: &[(&str, &[u8])] = &[
        ("sys/class/net/eth0/ifindex", b"2"),
        ("sys/class/net/eth0/type", b"1"),
        ("sys/class/net/eth0/device/vendor", b"0x8086"),
        ("kernel/rtnetlink/link", LINK),
    ];
    fuzz::answered(files, data, |machine| {
        let _ = (probes::network::network(machine), probes::network::modules(machine));
    });
});
