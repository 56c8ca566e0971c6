//! Captured trees: raw `tar.zst`, and tar inside a valid `zst`.
#![no_main]

use probes::machine::{Archive, Machine, Source};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let unpacked = match form % 2 {
        0 => Archive::unpack(data),
        _ => Archive::unpack(compress_to_vec(data, CompressionLevel::Fastest).as_slice()),
    };
    let Ok(tree) = unpacked else { return };
    let nodes: Vec<String> = tree.nodes().map(|(path, _)| path).collect();
    let folders: Vec<String> = tree.directories().collect();
    let machine = Machine::new(Arc::new(Source::unpacked(tree)), "fuzz");
    for path in nodes.iter().take(64) {
        let _ = (machine.bytes(path), machine.link(path), machine.device_path(path));
    }
    for path in folders.iter().take(64) {
        let _ = machine.list(path);
    }
});
