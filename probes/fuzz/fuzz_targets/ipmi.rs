//! Answers of a management controller: its id, LAN, sensors and event log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ =
        (formats::fru::fields(formats::fru::Area::Board, data), formats::fru::record_fields(data));
    let [table, answers] = fuzz::pieces(data);
    fuzz::answered(&[("sys/firmware/dmi/tables/DMI", table)], answers, |machine| {
        let mut bmc = probes::bmc::bmc(machine);
        probes::bmc::telemetry(machine).apply(&mut bmc);
    });
});
