//! The check of an Ignition config that a VIM returned.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(refusal) = ignition::check(data) {
        assert!(!refusal.to_string().is_empty());
    }
});
