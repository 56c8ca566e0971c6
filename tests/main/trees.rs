//! The notation of small trees, in `fixtures/{findings,healthy}/*.yaml` and `tests/accuracy/faults.yaml`.
//!
//! A content is text, `-> TARGET` (a link), `bytes: …` (see [`bytes`]) or `smbios: …` (a line per structure, see
//! [`smbios`]).

use std::collections::BTreeMap;

use probes::machine::Node;
use yaml_serde::Value;

/// Contents by path; `None` removes what is there.
pub(crate) type Files = BTreeMap<String, Option<Value>>;

/// What is at a path.
pub(crate) fn node(content: &Value) -> Node {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => panic!("{other:?} is neither text nor a number"),
    };
    if let Some(target) = text.strip_prefix("-> ") {
        return Node::Link(target.to_owned());
    }
    let content = if let Some(tokens) = text.strip_prefix("bytes:") {
        bytes(Vec::new(), tokens)
    } else if let Some(lines) = text.strip_prefix("smbios:") {
        smbios(lines)
    } else if text.is_empty() || text.ends_with('\n') {
        text.into_bytes()
    } else {
        (text + "\n").into_bytes()
    };
    Node::File(content.into())
}

/// Appends what `tokens` say: `0a1b` bytes in hexadecimal, `00*12` twelve of them, `"text"`, and `@20` or
/// `@0x14` zeros up to that offset.
pub(crate) fn bytes(mut bytes: Vec<u8>, tokens: &str) -> Vec<u8> {
    let mut rest = tokens.trim();
    while !rest.is_empty() {
        let (token, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (text, behind) = quoted.split_once('"').unwrap();
                bytes.extend(text.bytes());
                ("", behind)
            }
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        rest = behind.trim_start();
        if let Some(offset) = token.strip_prefix('@') {
            let offset = match offset.strip_prefix("0x") {
                Some(digits) => usize::from_str_radix(digits, 16).unwrap(),
                None => offset.parse().unwrap(),
            };
            assert!(offset >= bytes.len(), "{token} is behind byte {}", bytes.len());
            bytes.resize(offset, 0);
            continue;
        }
        let (digits, times) = token.split_once('*').unwrap_or((token, "1"));
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let one: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        (0..times.parse().unwrap()).for_each(|_: usize| bytes.extend(&one));
    }
    bytes
}

/// A table with a structure per line, and its end: `TYPE: tokens | "string" "string"`, or `TYPE/HANDLE:`.
/// The tokens begin at offset 4; offsets are those of the structure.
pub(crate) fn smbios(lines: &str) -> Vec<u8> {
    let mut table = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()).chain(["127/0xfefe:"]) {
        let (head, body) = line.trim().split_once(':').unwrap();
        let (kind, handle) = head.split_once("/0x").unwrap_or((head, "0"));
        let handle = u16::from_str_radix(handle, 16).unwrap();
        let (tokens, strings) = body.split_once('|').unwrap_or((body, ""));
        let mut header = vec![kind.parse().unwrap(), 0];
        header.extend(handle.to_le_bytes());
        let mut structure = bytes(header, tokens);
        structure[1] = u8::try_from(structure.len()).unwrap();
        table.extend(structure);
        let strings: Vec<&str> = strings.split('"').skip(1).step_by(2).collect();
        for string in &strings {
            table.extend([string.as_bytes(), b"\0"].concat());
        }
        table.extend(if strings.is_empty() { &b"\0\0"[..] } else { b"\0" });
    }
    table
}
