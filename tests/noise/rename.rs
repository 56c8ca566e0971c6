//! The same machine with other device names: the kernel may name devices differently at each boot.

use probes::machine::{Archive, Node};

/// A copy of `tree` in which every path, link and content went through `change`.
pub(crate) fn rewritten(tree: &Archive, change: impl Fn(&[u8]) -> Vec<u8>) -> Archive {
    let text = |text: &str| String::from_utf8(change(text.as_bytes())).unwrap();
    let mut copy = Archive::default();
    for path in tree.directories() {
        copy.set(&text(&path), None);
    }
    for (path, node) in tree.nodes() {
        let node = match node {
            Node::File(content) => Node::File(change(content).into()),
            Node::Link(target) => Node::Link(text(target)),
            Node::Error(code) => Node::Error(*code),
        };
        copy.set(&text(&path), Some(node));
    }
    copy
}

/// `bytes` with the names `a` and `b`, which have the same length, exchanged.
pub(crate) fn swapped(bytes: &[u8], a: &str, b: &str) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    for at in 0..bytes.len().saturating_sub(a.len() - 1) {
        let found = &bytes[at..at + a.len()];
        let other = match found {
            _ if found == a.as_bytes() => b,
            _ if found == b.as_bytes() => a,
            _ => continue,
        };
        let ends_in_digit = a.ends_with(|c: char| c.is_ascii_digit());
        let is_inside =
            |byte: &u8| if ends_in_digit { is_word(byte) } else { byte.is_ascii_alphabetic() };
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        if !before.is_some_and(is_word) && !bytes.get(at + a.len()).is_some_and(is_inside) {
            out[at..at + a.len()].copy_from_slice(other.as_bytes());
        }
    }
    out
}

/// `bytes` with every PCI address moved from domain 0 to a domain that no machine has.
pub(crate) fn in_other_domain(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let is_address = |window: &[u8]| {
        let is_hex = |at: usize| window[at].is_ascii_hexdigit();
        window.starts_with(b"0000:") && is_hex(5) && is_hex(6)
    };
    for (at, window) in bytes.windows(7).enumerate() {
        let is_whole = at == 0 || !bytes[at - 1].is_ascii_hexdigit();
        if is_address(window) && is_whole {
            out[at..at + 4].copy_from_slice(b"7a3c");
        }
    }
    out
}

/// The first two names in the folder `folder` that are of the same length and begin with `prefix`.
pub(crate) fn pair(tree: &Archive, folder: &str, prefix: &str) -> Option<(String, String)> {
    let all: Vec<String> = tree.nodes().map(|(path, _)| path).chain(tree.directories()).collect();
    let names = all.iter().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
    let mut names: Vec<&str> =
        names.filter(|name| name.starts_with(prefix) && !name.contains(['/', '.', ':'])).collect();
    names.sort_unstable();
    names.dedup();
    let first = names.iter().find_map(|a| {
        let b = names.iter().find(|b| *b != a && b.len() == a.len())?;
        Some((*a, *b))
    });
    first.map(|(a, b)| (a.to_owned(), b.to_owned()))
}
