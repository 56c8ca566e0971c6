//! Shared code of the fuzz targets: small machines made from the fuzzer's bytes.
//!
//! A target passes its bytes to a collector as the files and answers that a parser reads. So it takes the
//! same path as the agent, and a parser can move without a change here.

use std::sync::Arc;

use probes::machine::{Archive, Extras, Failure, Machine, Node, Source};

/// A machine with these files by path; below `sys/block`, content that starts with `-> ` is a link.
pub fn machine(files: &[(&str, &[u8])]) -> Machine {
    Machine::new(Arc::new(source(files)), "fuzz")
}

/// As [`machine`], as a source for a collector.
pub fn source(files: &[(&str, &[u8])]) -> Source {
    let mut archive = Archive::default();
    for (path, content) in files {
        let link = content.strip_prefix(b"-> ").filter(|_| path.starts_with("sys/block/"));
        let node = match link.and_then(|target| std::str::from_utf8(target).ok()) {
            Some(target) => Node::Link(target.to_owned()),
            None => Node::File((*content).into()),
        };
        archive.set(path, Some(node));
    }
    Source::unpacked(archive)
}

/// Lets `collect` read a machine with `files`, and answers its questions (ioctl, netlink, commands to a
/// disk or controller) with the pieces of `data`. Answers lead to further questions, so there are a few
/// rounds: a FRU memory of a BMC takes five, from its size to its last area.
pub fn answered(files: &[(&str, &[u8])], data: &[u8], collect: impl Fn(&Machine)) {
    let mut answers: Vec<(String, &[u8])> = Vec::new();
    let mut rest = data;
    for _ in 0..6 {
        let known = answers.iter().map(|(path, answer)| (path.as_str(), *answer));
        let all: Vec<(&str, &[u8])> = files.iter().copied().chain(known).collect();
        let source = Arc::new(source(&all).recording());
        collect(&Machine::new(Arc::clone(&source), "fuzz").with_extras(EVERYTHING));
        let absent = source.recorded().failures.into_iter();
        let absent = absent.filter(|(_, failure)| *failure == Failure::ABSENT);
        for ((_, path), _) in absent.filter(|((_, path), _)| path.starts_with("kernel/")) {
            let [piece, after] = pieces(rest);
            if rest.is_empty() {
                return;
            }
            (rest, answers) = (after, [answers, vec![(path, piece)]].concat());
        }
    }
}

/// Lets `collect` read a machine with `files` whose disk `sda` has these bytes. The content of one read
/// decides what is read next, so there are a few rounds.
pub fn with_disk(files: &[(&str, &[u8])], disk: &[u8], collect: impl Fn(&Machine)) {
    let mut answers: Vec<(String, &[u8])> = Vec::new();
    for _ in 0..4 {
        let known = answers.iter().map(|(path, answer)| (path.as_str(), *answer));
        let all: Vec<(&str, &[u8])> = files.iter().copied().chain(known).collect();
        let source = Arc::new(source(&all).recording());
        collect(&Machine::new(Arc::clone(&source), "fuzz"));
        let failures = source.recorded().failures;
        let absent = failures.iter().filter(|(_, failure)| **failure == Failure::ABSENT);
        let piece = |path: &str| {
            let (start, n) = path.strip_prefix("kernel/disk/sda/")?.split_once('-')?;
            let start: usize = start.parse().ok().filter(|start| *start < disk.len())?;
            let end = start.saturating_add(n.parse().ok()?).min(disk.len());
            Some((path.to_owned(), &disk[start..end]))
        };
        let n_known = answers.len();
        answers.extend(absent.filter_map(|((_, path), _)| piece(path)));
        if answers.len() == n_known {
            return;
        }
    }
}

/// All optional reads, except those that wait.
pub const EVERYTHING: Extras = Extras {
    memory_blocks: true,
    vpd: true,
    disk_samples: true,
    lldp_wait: std::time::Duration::ZERO,
};

/// Splits `data` into `N` pieces, each preceded by its length in two little-endian bytes. The last piece
/// is the rest; a missing piece is empty.
pub fn pieces<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut rest = data;
    let mut pieces: [&[u8]; N] = [&[]; N];
    for (i, piece) in pieces.iter_mut().enumerate() {
        if i + 1 == N {
            *piece = rest;
        } else if let Some((length, after)) = rest.split_first_chunk::<2>() {
            let n = usize::from(u16::from_le_bytes(*length)).min(after.len());
            (*piece, rest) = after.split_at(n);
        }
    }
    pieces
}

/// The first `n` bytes of a disk: zeros, overwritten with the records of `data`. A record consists of an
/// offset (three bytes, little-endian), a length (one byte) and the bytes.
pub fn disk(data: &[u8], n: usize) -> Vec<u8> {
    let mut disk = vec![0; n];
    let mut rest = data;
    while let Some((&[a, b, c, length], after)) = rest.split_first_chunk::<4>() {
        let (bytes, next) = after.split_at(usize::from(length).min(after.len()));
        let start = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let to = disk.get_mut(start..).unwrap_or_default();
        let n = bytes.len().min(to.len());
        to[..n].copy_from_slice(&bytes[..n]);
        rest = next;
    }
    disk
}

/// Writes correct checksums into a GUID partition table with sectors of `sector` bytes, because the
/// fuzzer would not find them. The table may be damaged in any other way.
pub fn seal_gpt(disk: &mut [u8], sector: usize) {
    seal_gpt_at(disk, sector, sector);
}

/// As [`seal_gpt`], for a header at byte `at`.
pub fn seal_gpt_at(disk: &mut [u8], at: usize, sector: usize) {
    let u32_at = |disk: &[u8], at: usize| {
        let bytes = disk.get(at..at + 4).and_then(|b| b.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
    };
    let first = u32_at(disk, at + 72).saturating_mul(sector);
    let n_bytes = u32_at(disk, at + 80).saturating_mul(u32_at(disk, at + 84));
    let entries = disk.get(first..first.saturating_add(n_bytes)).map(formats::gpt::crc32);
    if let (Some(entries), Some(to)) = (entries, disk.get_mut(at + 88..at + 92)) {
        to.copy_from_slice(&entries.to_le_bytes());
    }
    let n_header = u32_at(disk, at + 12).clamp(92, 512);
    let Some(header) = disk.get_mut(at..at + n_header) else { return };
    header[16..20].fill(0);
    let sum = formats::gpt::crc32(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
}
