//! Damages the files of a machine.

use nix::errno::Errno;
use probes::machine::{Archive, Node};

use crate::random::Random;
use crate::replay::unanswered;

/// Content that is a well-formed number or list, and a trap.
const TRAPS: &[&str] = &[
    "",
    "\n",
    "-1\n",
    "0\n",
    "18446744073709551615\n",
    "18446744073709551616\n",
    "9223372036854775807\n",
    "-9223372036854775808\n",
    "4294967295\n",
    "2147483648\n",
    "1e308\n",
    "NaN\n",
    "0x\n",
    "0-4294967295\n",
    "0-18446744073709551615\n",
    "0-8191:1/1\n",
    "7-3,,1\n",
    "ffffffff,ffffffff,ffffffff\n",
    "ff:ff:ff:ff:ff:ff\n",
    "unknown\n",
    "\0\0\0\0",
    "\u{fffd}\u{202e}\x1b[2J\x07\n",
    "a=b=c\n===\nE:\nE:=\n",
];

/// The parts of a machine that can be damaged.
#[derive(Debug)]
pub(crate) struct Targets {
    /// Files and links.
    paths: Vec<String>,
    /// Those with binary answers of the kernel or firmware, not text.
    answers: Vec<String>,
    /// Questions without an answer; a machine may give a meaningless one.
    questions: Vec<String>,
    folders: Vec<String>,
}

impl Targets {
    pub(crate) fn of(tree: &Archive) -> Targets {
        let paths: Vec<String> = tree.nodes().map(|(path, _)| path).collect();
        let answers = paths.iter().filter(|path| is_answer(path)).cloned().collect();
        let folders = tree.directories().collect();
        let questions = unanswered(tree.clone());
        Targets { paths, answers, questions, folders }
    }
}

/// Damages up to a fifth of the files and links of `tree`, and sometimes a directory.
/// Returns a line for each.
pub(crate) fn damage(tree: &mut Archive, targets: &Targets, random: &mut Random) -> Vec<String> {
    // Mostly few: with much damage at once, the first hides the effects of the rest.
    let most = *random.pick(&[3, 10, 30, targets.paths.len() / 5]);
    let mut done = Vec::new();
    for _ in 0..=random.below(most) {
        let from = match random.below(10) {
            0..=2 if !targets.answers.is_empty() => &targets.answers,
            3 if !targets.questions.is_empty() => &targets.questions,
            4 if !targets.folders.is_empty() => &targets.folders,
            _ => &targets.paths,
        };
        let path = random.pick(from);
        let how = damage_one(tree, path, &targets.paths, random);
        done.push(format!("{path}: {how}"));
    }
    if random.below(16) == 0 {
        let path = random.pick(&targets.paths);
        done.push(format!("{path}: {}", grow(tree, path, random)));
    }
    done
}

fn is_answer(path: &str) -> bool {
    let folders = ["kernel/", "sys/firmware/", "run/udev/"];
    folders.iter().any(|folder| path.starts_with(folder)) || path.contains("vpd")
}

fn damage_one(tree: &mut Archive, path: &str, paths: &[String], random: &mut Random) -> String {
    let content = content(tree, path);
    let mut file = |bytes: Vec<u8>| tree.set(path, Some(Node::File(bytes.into())));
    match random.below(11) {
        0 => {
            tree.remove(path);
            "removed".to_owned()
        }
        1 => {
            let n = random.below(content.len());
            file(content[..n].to_vec());
            format!("cut to {n} bytes")
        }
        2 => {
            let n = *random.pick(&[1, 7, 64, content.len(), 5000]);
            file(random.bytes(n));
            format!("{n} random bytes")
        }
        3 | 4 => {
            let mut bytes = content;
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                let byte = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, b'-', b'\n', b'9']);
                bytes.get_mut(at).into_iter().for_each(|b| *b = byte);
            }
            file(bytes);
            "some bytes changed".to_owned()
        }
        5 => {
            let code = *random.pick(&[Errno::EACCES, Errno::EPERM, Errno::EIO, Errno::ENODEV]);
            tree.set(path, Some(Node::Error(code as i32)));
            format!("{code}")
        }
        6 => {
            tree.set(path, None);
            "an empty directory".to_owned()
        }
        7 => {
            let name = path.rsplit('/').next().unwrap_or_default();
            tree.set(path, Some(Node::Link(name.to_owned())));
            "a link to itself".to_owned()
        }
        8 => {
            let target = *random.pick(&["..", "/", "../../../../../..", "nowhere", "", "\u{0}"]);
            tree.set(path, Some(Node::Link(target.to_owned())));
            format!("a link to {target:?}")
        }
        9 => {
            let trap = *random.pick(TRAPS);
            file(trap.as_bytes().to_vec());
            format!("{trap:?}")
        }
        _ => {
            let other = random.pick(paths);
            let content = self::content(tree, other);
            tree.set(path, Some(Node::File(content.into())));
            format!("what {other} holds")
        }
    }
}

/// Repeats the content of a file to a size near the limit of a read.
fn grow(tree: &mut Archive, path: &str, random: &mut Random) -> String {
    let n: usize = *random.pick(&[64 << 10, 100 << 10, 2 << 20, (8 << 20) + 1, (16 << 20) + 1]);
    let mut content = content(tree, path);
    if content.is_empty() {
        content = random.bytes(1000);
    }
    let mut bytes = content.repeat(n.div_ceil(content.len()));
    bytes.truncate(n);
    tree.set(path, Some(Node::File(bytes.into())));
    format!("grown to {n} bytes")
}

fn content(tree: &Archive, path: &str) -> Vec<u8> {
    match tree.get(path) {
        Some(Node::File(content)) => content.to_vec(),
        _ => Vec::new(),
    }
}
