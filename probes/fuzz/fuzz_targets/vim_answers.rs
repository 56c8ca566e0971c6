//! Answers of a VIM: an instruction, `Retry-After`, an HTTP date.
#![no_main]

use formats::time::parse_http_date;
use run_coreos_installer::api::parse_instruction;
use run_coreos_installer::http::retry::RetryAfter;
use std::time::SystemTime;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(refusal) = parse_instruction(data) {
        assert!(!refusal.message.is_empty());
        assert!(refusal.request_id.is_none_or(|id| id.chars().count() <= 128));
    }
    let text = String::from_utf8_lossy(data);
    let _ = parse_http_date(&text);
    let _ = RetryAfter::parse(&text, SystemTime::UNIX_EPOCH);
});
