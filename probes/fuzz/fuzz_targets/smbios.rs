//! The SMBIOS table and its entry point, through every collector that reads them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = (formats::smbios::fields(data), formats::smbios::parse(None, data));
    let [entry, table] = fuzz::pieces(data);
    let machine = fuzz::machine(&[
        ("sys/firmware/dmi/tables/smbios_entry_point", entry),
        ("sys/firmware/dmi/tables/DMI", table),
    ]);
    let _ = probes::smbios::table(&machine);
    let _ = probes::dmi::dmi(&machine);
    let _ = probes::memory::memory(&machine);
    let _ = probes::cpu::cpu(&machine);
    let _ = probes::bmc::bmc(&machine);
});
