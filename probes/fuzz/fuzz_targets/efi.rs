//! EFI variables: boot entries with their device paths, order and flags.
#![no_main]

const FOLDER: &str = "sys/firmware/efi/efivars";
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let names = ["BootOrder", "BootCurrent", "SecureBoot", "SetupMode", "Timeout", "Boot0001"];
    let contents: [&[u8]; 6] = fuzz::pieces(data);
    let paths = names.map(|name| format!("{FOLDER}/{name}-{GLOBAL}"));
    let mut files: Vec<(&str, &[u8])> = paths.iter().map(String::as_str).zip(contents).collect();
    files.push(("sys/firmware/efi/fw_platform_size", b"64\n"));
    files.push(("sys/class/net/eth0/address", b"02:00:00:00:00:01\n"));
    let machine = fuzz::machine(&files);
    let _ = probes::firmware::firmware(&machine);
    let _ = probes::network::network(&machine);
});
