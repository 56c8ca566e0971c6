//! The SMBIOS table and its entry point, through every collector that reads them; and the firmware's error records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = (formats::smbios::fields(data), formats::smbios::parse(None, data));
    for field in formats::cper::fields(data) {
        assert!(field.span.end <= data.len(), "{field:?}");
    }
    let [entry, table] = fuzz::pieces(data);
    let machine = fuzz::machine(&[
        ("sys/firmware/dmi/tables/smbios_entry_point", entry),
        ("sys/firmware/dmi/tables/DMI", table),
        ("sys/firmware/acpi/tables/data/BERT", entry),
    ]);
    let _ = probes::smbios::table(&machine);
    let _ = probes::dmi::dmi(&machine);
    let _ = probes::memory::memory(&machine);
    let _ = probes::cpu::cpu(&machine);
    let _ = probes::bmc::bmc(&machine);
    let _ = probes::firmware::firmware(&machine);
});
