//! Prints the functions and constants of an object file in an order in which gzip packs the linked program better.
//!
//! `order-sections OBJECT` prints the symbol of each section with a function and the name of each section with constants. gzip
//! finds repetitions only within 32 KiB, so each section is followed by the one that repeats most of the 32 KiB before it:
//! repetitions are counted in sequences of 4 and of 8 bytes, per byte of the section. The format is that of the System V ABI,
//! chapters 4 and 5, for 64 bits and little-endian.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::process::ExitCode;

/// The lengths of the sequences that are compared. 4 is nearly the shortest that gzip repeats; longer ones save more, so they count twice.
const LENGTHS: [usize; 2] = [4, 8];
/// How far back gzip looks.
const WINDOW_BYTES: usize = 32_000;
/// A sequence of more sections than this is everywhere, so it says nothing about the order.
const MAX_SHARERS: usize = 200;
/// Added to the size of a section, so that short ones, which repeat nearly everything, do not come first.
const BIAS_BYTES: f64 = 128.0;
/// Below 1, so that a long section is not left to the end for its length alone.
const SIZE_EXPONENT: f64 = 0.9;

const PROGRAM_BITS: u64 = 1;
const SYMBOLS: u64 = 2;
const RELOCATIONS: u64 = 4;
const INDEXES: u64 = 18;
const EXECUTABLE: u64 = 4;
/// Flags of constants that the linker does not merge: loaded, and nothing more.
const LOADED: u64 = 2;
/// In place of a number that has more than 16 bits and is elsewhere.
const ELSEWHERE: u64 = 0xffff;
const FUNCTION: u64 = 2;
/// `R_X86_64_PC32` and `R_X86_64_PLT32`: a distance.
const DISTANCES: [u64; 2] = [2, 4];
/// `R_X86_64_64`.
const ADDRESS_64: u64 = 1;

struct Section {
    name: usize,
    kind: u64,
    flags: u64,
    at: usize,
    size: usize,
    link: usize,
    info: usize,
}

/// A function or constant.
struct Part {
    name: String,
    is_code: bool,
    /// Addresses are represented by what they refer to.
    bytes: Vec<u8>,
    /// Whether a byte belongs to a distance, which depends on the order.
    is_distance: Vec<bool>,
}

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_default();
    let Some(parts) = std::fs::read(&path).ok().as_deref().and_then(read) else {
        eprintln!("order-sections: {path} is not an object file of 64 bits");
        return ExitCode::FAILURE;
    };
    let mut text = String::new();
    let (code, constants): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.is_code);
    for parts in [code, constants] {
        for index in order(&parts) {
            writeln!(text, "{}", parts[index].name).ok();
        }
    }
    print!("{text}");
    ExitCode::SUCCESS
}

/// The little-endian number of `n` bytes at `at`.
fn number(file: &[u8], at: usize, n: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(n)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn offset(file: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number(file, at, 8)?).ok()
}

/// The sections of an object file.
fn sections(file: &[u8]) -> Option<Vec<Section>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let headers = offset(file, 40)?;
    let n_sections = match number(file, 60, 2)? {
        // More than 16 bits: the size of the first, empty section.
        0 => offset(file, headers + 32)?,
        n => n as usize,
    };
    let section = |index: usize| {
        let at = headers + 64 * index;
        Some(Section {
            name: number(file, at, 4)? as usize,
            kind: number(file, at + 4, 4)?,
            flags: number(file, at + 8, 8)?,
            at: offset(file, at + 24)?,
            size: offset(file, at + 32)?,
            link: number(file, at + 40, 4)? as usize,
            info: number(file, at + 44, 4)? as usize,
        })
    };
    (0..n_sections).map(section).collect()
}

fn text(file: &[u8], at: usize) -> Option<String> {
    let text = file.get(at..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The functions and constants that have a section of their own.
fn read(file: &[u8]) -> Option<Vec<Part>> {
    let sections = sections(file)?;
    let symbols = functions(file, &sections)?;
    let names = match number(file, 62, 2)? {
        ELSEWHERE => sections.first()?.link,
        index => index as usize,
    };
    let names = sections.get(names)?.at;
    let mut parts = Vec::new();
    let mut by_section = HashMap::new();
    for (index, section) in sections.iter().enumerate() {
        let is_code = section.flags & EXECUTABLE != 0;
        let name = match symbols.get(&index) {
            Some(symbol) if is_code => symbol.clone(),
            _ => text(file, names + section.name)?,
        };
        let is_own = symbols.contains_key(&index) && is_code
            || section.flags == LOADED && name.starts_with(".rodata.");
        if section.kind == PROGRAM_BITS && is_own && section.size > 0 {
            let bytes = file.get(section.at..section.at + section.size)?.to_vec();
            by_section.insert(index, parts.len());
            let is_distance = vec![false; bytes.len()];
            parts.push(Part { name, is_code, bytes, is_distance });
        }
    }
    for relocations in sections.iter().filter(|section| section.kind == RELOCATIONS) {
        if let Some(&index) = by_section.get(&relocations.info) {
            relocate(file, relocations, &mut parts[index])?;
        }
    }
    Some(parts)
}

/// The first function symbol of each section.
fn functions(file: &[u8], sections: &[Section]) -> Option<HashMap<usize, String>> {
    let symbols = sections.iter().find(|section| section.kind == SYMBOLS)?;
    let indexes = sections.iter().find(|section| section.kind == INDEXES);
    let names = sections.get(symbols.link)?.at;
    let mut functions = HashMap::new();
    for n in 0..symbols.size / 24 {
        let at = symbols.at + 24 * n;
        let section = match (number(file, at + 6, 2)?, indexes) {
            (ELSEWHERE, Some(indexes)) => number(file, indexes.at + 4 * n, 4)?,
            (section, _) => section,
        };
        if number(file, at + 4, 1)? & 15 == FUNCTION {
            let name = text(file, names + number(file, at, 4)? as usize)?;
            functions.entry(section as usize).or_insert(name);
        }
    }
    Some(functions)
}

/// Marks distances and represents addresses by what they refer to.
fn relocate(file: &[u8], relocations: &Section, part: &mut Part) -> Option<()> {
    for n in 0..relocations.size / 24 {
        let entry = relocations.at + 24 * n;
        let (at, kind) = (offset(file, entry)?, number(file, entry + 8, 4)?);
        let target = hash(number(file, entry + 12, 4)? << 32 ^ number(file, entry + 16, 8)?);
        let length = if kind == ADDRESS_64 { 8 } else { 4 };
        let Some(place) = part.bytes.get_mut(at..at + length) else { continue };
        if DISTANCES.contains(&kind) {
            part.is_distance[at..at + length].fill(true);
        } else {
            place.copy_from_slice(&target.to_le_bytes()[..length]);
        }
    }
    Some(())
}

fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// How often a part contains each sequence that it shares with others; sequences are numbers.
fn shared_sequences(parts: &[&Part]) -> (Vec<Vec<(usize, u32)>>, Vec<Vec<(usize, u32)>>) {
    let mut numbers = HashMap::new();
    let mut sharers: Vec<Vec<(usize, u32)>> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        for sequence in LENGTHS.iter().flat_map(|n| part.bytes.windows(*n).enumerate()) {
            let (at, bytes) = sequence;
            if part.is_distance[at..at + bytes.len()].contains(&true) {
                continue;
            }
            let number = *numbers.entry(bytes).or_insert(sharers.len());
            if number == sharers.len() {
                sharers.push(Vec::new());
            }
            match sharers[number].last_mut() {
                Some((last, count)) if *last == index => *count += 1,
                _ => sharers[number].push((index, 1)),
            }
        }
    }
    let mut sequences = vec![Vec::new(); parts.len()];
    for (number, sharers) in sharers.iter_mut().enumerate() {
        if !(2..=MAX_SHARERS).contains(&sharers.len()) {
            sharers.clear();
        }
        for (part, count) in sharers {
            sequences[*part].push((number, *count));
        }
    }
    (sequences, sharers)
}

/// The indexes of the parts in their new order.
fn order(parts: &[Part]) -> Vec<usize> {
    // Parts that differ in distances at most stay together.
    let mut numbers = HashMap::new();
    let mut alike: Vec<Vec<usize>> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let number = *numbers.entry(&part.bytes).or_insert(alike.len());
        alike.resize_with(alike.len().max(number + 1), Vec::new);
        alike[number].push(index);
    }
    let distinct: Vec<&Part> = alike.iter().map(|group| &parts[group[0]]).collect();
    let (sequences, sharers) = shared_sequences(&distinct);
    let size = |index: usize| distinct[index].bytes.len();
    let weight = |index| (size(index) as f64 + BIAS_BYTES).powf(SIZE_EXPONENT);
    let weights: Vec<f64> = (0..distinct.len()).map(weight).collect();
    let mut score = vec![0_i64; distinct.len()];
    let mut times_in_window = vec![0_u32; sharers.len()];
    let (mut window, mut n_window_bytes) = (VecDeque::new(), 0);
    let mut left: Vec<usize> = (0..distinct.len()).collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let value = |position: &usize| score[left[*position]] as f64 / weights[left[*position]];
        let best = (0..left.len()).max_by(|a, b| value(a).total_cmp(&value(b)).then(b.cmp(a)));
        let Some(next) = best.map(|position| left.remove(position)) else { break };
        ordered.extend(&alike[next]);
        window.push_back(next);
        n_window_bytes += size(next);
        for (sequence, _) in &sequences[next] {
            times_in_window[*sequence] += 1;
            if times_in_window[*sequence] == 1 {
                sharers[*sequence].iter().for_each(|(part, n)| score[*part] += i64::from(*n));
            }
        }
        while n_window_bytes > WINDOW_BYTES && window.len() > 1 {
            let Some(old) = window.pop_front() else { break };
            n_window_bytes -= size(old);
            for (sequence, _) in &sequences[old] {
                times_in_window[*sequence] -= 1;
                if times_in_window[*sequence] == 0 {
                    sharers[*sequence].iter().for_each(|(part, n)| score[*part] -= i64::from(*n));
                }
            }
        }
    }
    ordered
}
