//! Answers of a TPM about its properties.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let files: &[(&str, &[u8])] = &[("sys/class/tpm/tpm0/tpm_version_major", b"2")];
    fuzz::answered(files, data, |machine| drop(probes::tpm::tpm(machine)));
});
