//! Small trees for tests: files and links given as text, read through the same door as any capture.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::machine::{Machine, Source};

/// A machine of the given files by path. A content that starts with `-> ` is a symbolic link.
pub(crate) fn tree(files: &[(&str, &str)]) -> Machine {
    let bytes: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (*p, c.as_bytes())).collect();
    tree_of_bytes(&bytes)
}

/// As [`tree`], for files that are no text.
pub(crate) fn tree_of_bytes(files: &[(&str, &[u8])]) -> Machine {
    static N_TREES: AtomicU32 = AtomicU32::new(0);
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        if let Some(target) = content.strip_prefix(b"-> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            let target = std::str::from_utf8(target).unwrap();
            archive.append_link(&mut header, path, target).unwrap();
        } else {
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, path, *content).unwrap();
        }
    }
    let plain = archive.into_inner().unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(plain.as_slice(), level);
    let n = N_TREES.fetch_add(1, Ordering::Relaxed);
    let file: PathBuf =
        std::env::temp_dir().join(format!("rci-tree-{}-{n}.tar.zst", std::process::id()));
    std::fs::write(&file, packed).unwrap();
    let source = Source::captured(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    Machine::new(Arc::new(source), "test")
}
