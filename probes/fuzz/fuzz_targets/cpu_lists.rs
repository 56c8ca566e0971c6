//! Lists and masks of CPUs.
#![no_main]

use probes::cpuset::CpuSet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Ok(set) = CpuSet::parse(&text) {
        let again = CpuSet::parse(&set.to_string()).expect("its own text");
        assert_eq!(set, again);
        assert_eq!(set.iter().count(), set.len());
    }
    if let Ok(set) = CpuSet::parse_mask(&text) {
        assert_eq!(set.iter().next(), set.first());
        assert!(set.difference(&set).is_empty());
    }
});
