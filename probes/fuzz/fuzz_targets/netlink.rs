//! Dumps of links, addresses and routes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for list in [formats::netlink::List::Addresses, formats::netlink::List::Routes] {
        let _ = (formats::netlink::fields(list, data), formats::netlink::networks(list, data));
    }
    let [links, addresses, routes] = fuzz::pieces(data);
    let machine = fuzz::machine(&[
        ("sys/class/net/eth0/ifindex", b"2"),
        ("kernel/rtnetlink/link", links),
        ("kernel/rtnetlink/address", addresses),
        ("kernel/rtnetlink/route", routes),
    ]);
    let _ = probes::network::network(&machine);
    let _ = probes::network::local_addresses(&machine);
});
