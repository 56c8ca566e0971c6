//! Answers of a management controller.
#![no_main]

/// The numbers of the LAN parameters, as captures have them.
const PARAMETERS: std::ops::RangeInclusive<u8> = 0..=65;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [device, channel, lan, v6, table] = fuzz::pieces(data);
    let mut files: Vec<(String, &[u8])> = vec![
        ("kernel/ipmi/device_id".to_owned(), device),
        ("kernel/ipmi/channel/1/info".to_owned(), channel),
        ("sys/firmware/dmi/tables/DMI".to_owned(), table),
    ];
    for parameter in PARAMETERS {
        let answer = if parameter >= 50 { v6 } else { lan };
        files.push((format!("kernel/ipmi/channel/1/lan/{parameter}.0"), answer));
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
    let _ = probes::bmc::bmc(&fuzz::machine(&files));
});
