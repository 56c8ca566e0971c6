//! Output of coreos-installer: version, progress, last lines.
#![no_main]

use run_coreos_installer::act::progress::{Lines, Tail, percent};
use run_coreos_installer::act::writers::coreos_installer::parse_version;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (mut lines, mut tail) = (Lines::default(), Tail::default());
    for chunk in data.chunks(7) {
        for line in lines.feed(chunk) {
            assert!(percent(&line).is_none_or(|percent| percent <= 100));
            assert!(!line.contains(char::is_control));
            tail.push(line);
        }
    }
    lines.finish().into_iter().for_each(|line| tail.push(line));
    let _ = parse_version(&String::from_utf8_lossy(data));
});
