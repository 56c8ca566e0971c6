//! Texts of `/proc` and `/etc`.
#![no_main]

const PATHS: [&str; 15] = [
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/zoneinfo",
    "proc/cmdline",
    "proc/version",
    "proc/swaps",
    "proc/self/mountinfo",
    "proc/net/route",
    "proc/net/ipv6_route",
    "proc/net/if_inet6",
    "proc/net/fib_trie",
    "etc/resolv.conf",
    "etc/os-release",
    "proc/mounts",
    "var/lib/dhclient/dhclient6-eno1.leases",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Two files share a text, so that short data reaches all of them.
    let contents: [&[u8]; 8] = fuzz::pieces(data);
    let files: Vec<(&str, &[u8])> =
        PATHS.iter().enumerate().map(|(i, path)| (*path, contents[i / 2])).collect();
    let machine = fuzz::machine(&files);
    let _ = probes::cpu::cpu(&machine);
    let _ = probes::memory::memory(&machine);
    let _ = probes::os::os(&machine);
    let _ = probes::network::local_addresses(&machine);
    let _ = probes::block::block(&machine);
});
