//! A PCI device: its configuration space, Vital Product Data and texts.
#![no_main]

use std::sync::Arc;

const DEVICE: &str = "sys/bus/pci/devices/0000:01:00.0";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [uevent, resource, config, vpd] = fuzz::pieces(data);
    let paths = ["uevent", "resource", "config", "vpd"].map(|name| format!("{DEVICE}/{name}"));
    let files: Vec<(&str, &[u8])> =
        paths.iter().map(String::as_str).zip([uevent, resource, config, vpd]).collect();
    let source = Arc::new(fuzz::source(&files));
    let machine = probes::machine::Machine::new(source, "fuzz").with_extras(fuzz::EVERYTHING);
    let pci = probes::pci::pci(&machine);
    let _ = probes::gpu::gpu(&machine, &pci);
});
