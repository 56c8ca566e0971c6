//! Records that an earlier kernel stored when it crashed (`Documentation/ABI/testing/pstore`). Needs root.
//!
//! Only the name of a record and the message of the crash are kept: a log can contain anything.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::Question;

const KERNEL: &str = "/sys/fs/pstore";
/// Folder to which `systemd-pstore.service` moves the records at boot. An installed system keeps them there for good,
/// so their age is unknown; records there on a live system were moved at this boot.
const SYSTEMD: &str = "/var/lib/systemd/pstore";
/// The most records that are read.
const MOST_RECORDS: usize = 64;
/// Maximum number of bytes of a record that are read; by default the kernel stores 10 KiB (`kmsg_bytes`).
const MOST_BYTES: u64 = 64 << 10;
/// Messages of a crash, the most certain one first.
const MESSAGES: [&str; 5] = [
    "Kernel panic - not syncing",
    "Unable to handle kernel",
    "general protection fault",
    "kernel BUG at",
    "Oops:",
];

/// Asks for the crashes, a line for each record: its name, and after a tab the message of the crash.
#[derive(Debug, Clone, Copy)]
pub struct Crashes {
    /// True if the system is a live system.
    pub is_live: bool,
}

impl Question for Crashes {
    fn name(&self) -> String {
        "pstore".to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut answer = String::new();
        for folder in [Some(KERNEL), self.is_live.then_some(SYSTEMD)].into_iter().flatten() {
            // Absent without pstore or without systemd.
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> =
                names.filter(|name| !name.contains(['\t', '\n'])).collect();
            names.sort_unstable();
            for name in names.into_iter().take(MOST_RECORDS) {
                answer += &record(&Path::new(folder).join(&name), &name).unwrap_or_default();
            }
        }
        Ok(answer.into_bytes())
    }
}

/// The line of one record; `None` for a record of something else. systemd makes a folder of the parts of a crash.
fn record(path: &Path, name: &str) -> Option<String> {
    let is_folder = fs::symlink_metadata(path).ok()?.is_dir();
    let file = if is_folder { path.join("dmesg.txt") } else { path.to_owned() };
    if !is_folder && !name.starts_with("dmesg-") {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    is_crash(&text).then(|| match message(&text) {
        Some(message) => format!("{name}\t{message}\n"),
        None => format!("{name}\n"),
    })
}

/// True if a record is that of a crash. The kernel can also store its log at a shutdown (`printk.always_kmsg_dump`).
/// The first line is `Panic#1 Part1`, with the reason in front (`fs/pstore/platform.c`).
fn is_crash(text: &str) -> bool {
    ["Panic#", "Oops#", "Emergency#"].iter().any(|reason| text.contains(reason))
}

/// The message of the crash without its level and time: `<0>[  12.345678] Kernel panic - not syncing: …`.
fn message(text: &str) -> Option<&str> {
    let line = MESSAGES.iter().find_map(|one| text.lines().find(|line| line.contains(one)))?;
    let start = MESSAGES.iter().filter_map(|one| line.find(one)).min()?;
    line.get(start..).map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_a_panic_has_its_message_and_that_of_a_shutdown_is_ignored() {
        let log = "<6>[   10.1] usb 1-1: new device\n<1>[   12.3] BUG: kernel NULL pointer\n\
            <4>[   12.4] Oops: 0002 [#1] SMP\n<0>[   12.5] Kernel panic - not syncing: Fatal exception\n";
        let panic = format!("Panic#2 Part1\n{log}");
        assert!(is_crash(&panic) && !is_crash(&format!("Shutdown#1 Part1\n{log}")));
        assert_eq!(message(&panic), Some("Kernel panic - not syncing: Fatal exception"));
        assert_eq!(message("<4>[ 1.2] Oops: 0002 [#1] SMP"), Some("Oops: 0002 [#1] SMP"));
        assert_eq!(message("<6>[ 1.2] usb"), None);
    }

    #[test]
    fn folders_of_systemd_and_records_of_the_kernel_are_read_alike() {
        let folder = std::env::temp_dir().join(format!("rci-pstore-{}", std::process::id()));
        fs::create_dir_all(folder.join("71813")).unwrap();
        let text = "Oops#1 Part1\n<0>[ 1.0] Oops: 0000 [#1]\n";
        for name in ["dmesg-efi-1", "console-ramoops-0", "71813/dmesg.txt"] {
            fs::write(folder.join(name), text).unwrap();
        }
        let of = |name: &str| record(&folder.join(name), name);
        assert_eq!(of("dmesg-efi-1").as_deref(), Some("dmesg-efi-1\tOops: 0000 [#1]\n"));
        assert_eq!(of("71813").as_deref(), Some("71813\tOops: 0000 [#1]\n"));
        assert_eq!(of("console-ramoops-0"), None, "written at every boot");
        fs::remove_dir_all(&folder).unwrap();
    }
}
