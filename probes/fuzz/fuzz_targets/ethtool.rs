//! What ethtool answers of all ports, and of one its driver.
#![no_main]

/// `RTM_NEWLINK` of `eth0` with index 2 and a MAC.
const LINK: &[u8] = &[
    56, 0, 0, 0, 16, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
    0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0x10, 1, 0, 0, 0, 0, 0, // ifinfomsg
    9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, // IFLA_IFNAME
    10, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 0, // IFLA_ADDRESS
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [info, modes, state, driver] = fuzz::pieces(data);
    let network = probes::network::network(&fuzz::machine(&[
        ("sys/class/net/eth0/ifindex", b"2"),
        ("kernel/rtnetlink/link", LINK),
        ("kernel/genetlink/ethtool/linkinfo", info),
        ("kernel/genetlink/ethtool/linkmodes", modes),
        ("kernel/genetlink/ethtool/linkstate", state),
        ("kernel/ethtool/eth0/driver", driver),
    ]));
    assert_eq!(network.interfaces.len(), 1);
});
