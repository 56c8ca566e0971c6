//! EFI variables: boot entries with their device paths, order and flags.
#![no_main]

use formats::efi::GLOBAL;

const FOLDER: &str = "sys/firmware/efi/efivars";

/// Every field lies in the variable, and replacing each by itself changes nothing.
fn fields(data: &[u8]) {
    let name = format!("Boot0001-{GLOBAL}");
    let fields = formats::efi::fields(&name, data);
    let same = |field: &formats::Field| {
        let bytes = data.get(field.span.clone()).expect("a span outside the variable");
        (field.span.clone(), bytes.to_vec())
    };
    let edits: Vec<_> = fields.iter().map(same).collect();
    if !fields.is_empty() {
        assert_eq!(formats::efi::splice(&name, data, &edits).as_deref(), Some(data));
    }
    let _ = formats::device_path::text(data);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fields(data);
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
