//! Records of the kernel log (`Documentation/ABI/testing/dev-kmsg`), and which of them mean a fault:
//! `data/kernel-log.txt`.
//!
//! Pure, so that the live log is filtered while it is read: neither a report nor a capture contains any
//! other message.

use std::sync::LazyLock;

use formats::pattern::matches;

use crate::pci_address::is_pci_address;

/// Messages that mean a fault; see the file.
const PATTERNS: &str = include_str!("../data/kernel-log.txt");

/// A message that means a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The code of the finding, e.g. `disk.kernel_errors`.
    pub(crate) code: &'static str,
    /// The part as the message names it, e.g. `sda`, `0000:3b:00.0`, `3` for a CPU.
    pub(crate) subject: Option<&'a str>,
    /// The message.
    pub(crate) text: &'a str,
}

/// Reads a record of `/dev/kmsg`: `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, then lines that begin with a blank.
/// `None` for messages of other programs, and for those without a meaning here.
pub(crate) fn message(record: &str) -> Option<Message<'_>> {
    let text = kernel_text(record)?;
    if QUOTES.iter().any(|(start, piece)| text.starts_with(start) && text.contains(piece)) {
        return None;
    }
    let row = ROWS.iter().find(|row| row.fits(text))?;
    Some(Message { code: row.code, subject: subject_of(text, row.subject), text })
}

/// The first line of a record of the kernel itself.
pub(crate) fn kernel_text(record: &str) -> Option<&str> {
    let (prefix, text) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.trim().parse().ok()?;
    // The facility is above the three bits of the level; programs that write to the log have another.
    text.lines().next().filter(|_| priority < 8)
}

/// Starts and pieces of messages that quote names of devices, users or the boot loader, which may look like an error.
const QUOTES: [(&str, &str); 13] = [
    ("usb ", ": Product: "),
    ("usb ", ": Manufacturer: "),
    ("usb ", ": SerialNumber: "),
    ("Kernel command line: ", ""),
    ("Command line: ", ""),
    ("Unknown kernel command line parameters ", ""),
    ("audit: ", ""),
    ("input: ", " as /devices/"),
    // Each driver of a HID device has its own name in front (`hid_connect`).
    ("", " HID v"),
    ("uvcvideo ", ": Found UVC "),
    ("BTRFS", "device label "),
    ("BTRFS", "device fsid "),
    ("scsi ", " PQ: "),
];

/// A line of the file.
struct Row {
    code: &'static str,
    subject: &'static str,
    /// Its pieces as a pattern.
    wanted: String,
    /// A word with a colon may come before it.
    may_follow_function: bool,
    unwanted: Vec<&'static str>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    PATTERNS.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
});

fn row(line: &'static str) -> Option<Row> {
    let (code, rest) = line.split_once('|')?;
    let (subject, pieces) = rest.split_once('|')?;
    let mut parts = pieces.split('!').map(str::trim);
    let wanted: Vec<&str> = parts.next()?.split('*').map(str::trim).collect();
    let wanted = wanted.join("*");
    Some(Row {
        code: code.trim(),
        subject: subject.trim(),
        wanted: match wanted.strip_prefix(['^', '~']) {
            Some(start) => format!("{start}*"),
            None => format!("*{wanted}*"),
        },
        may_follow_function: wanted.starts_with('~'),
        unwanted: parts.collect(),
    })
}

impl Row {
    fn fits(&self, text: &str) -> bool {
        let text =
            if self.subject == DEVICE { of_device(text).map(|(_, text)| text) } else { Some(text) };
        text.is_some_and(|text| self.is_in(text))
    }

    fn is_in(&self, text: &str) -> bool {
        let function = text.split_once(": ").filter(|(name, _)| !name.contains(' '));
        let rest = function.filter(|_| self.may_follow_function).map(|(_, rest)| rest);
        let fits = |text: &str| matches(&self.wanted, text);
        (fits(text) || rest.is_some_and(fits))
            && !self.unwanted.iter().any(|piece| text.contains(piece))
    }
}

/// The subject of messages that begin with the driver and the address of a PCI device, as `pci_err()` writes them.
const DEVICE: &str = "device";

/// The address and the rest of such a message. Anywhere else an address may be part of a name.
fn of_device(text: &str) -> Option<(&str, &str)> {
    let (_driver, rest) = text.split_once(' ')?;
    let (place, message) = rest.split_once(": ")?;
    // Messages of a network port have its name after the address.
    let address = place.split(' ').next()?;
    is_pci_address(address).then_some((address, message))
}

fn trimmed(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '-'])
}

fn subject_of<'a>(text: &'a str, place: &str) -> Option<&'a str> {
    let is_part = |c: char| c.is_alphanumeric() || "._-:#".contains(c);
    let word = |text: &'a str| {
        let text = text.trim_start_matches([' ', '#', ':']);
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let word = trimmed(text.get(..end).unwrap_or_default());
        (!word.is_empty()).then_some(word)
    };
    match place {
        "-" => None,
        DEVICE => of_device(text).map(|(address, _)| address),
        "pci" => text.split(|c: char| !is_part(c)).map(trimmed).find(|word| is_pci_address(word)),
        // The port stands in front: `ata1.00: failed command: …`.
        "failed command" => word(text),
        // Driver and address come before the name, the state of a port that goes may come after it.
        ": NETDEV" => {
            let before = text.split(place).next()?.split(" (").next()?;
            word(before.rsplit(' ').next()?)
        }
        // The name includes the end of what introduces it.
        "nvme nvme" => word(text.get(text.find("nvme nvme")? + 5..)?),
        _ => {
            let after = |place: &str| text.get(text.find(place)? + place.len()..);
            // Labels of the firmware have several words.
            let Some(place) = place.strip_prefix("label ") else { return word(after(place)?) };
            let label = after(place)?.split(" (").next()?.trim();
            (!label.is_empty()).then_some(label)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the code and the part of each message.
    fn check(cases: &[(&str, &str, &str)]) {
        for (text, code, subject) in cases {
            let record = format!("3,812,5140900,-;{text}\n SUBSYSTEM=x\n");
            let found = message(&record).map(|m| (m.code, m.subject.unwrap_or_default()));
            assert_eq!(found, Some((*code, *subject)), "{text}");
        }
    }

    #[test]
    fn messages_of_the_kernel_name_their_part() {
        check(&[
            ("I/O error, dev sda, sector 5 op 0x0:(READ) flags 0x0", "disk.kernel_errors", "sda"),
            (
                "sd 0:0:1:0: [sdb] tag#0 Sense Key : Medium Error [current]",
                "disk.kernel_errors",
                "sdb",
            ),
            (
                "blk_update_request: critical medium error, dev sdb, sector 9 op 0x0:(READ)",
                "disk.kernel_errors",
                "sdb",
            ),
            ("print_req_error: I/O error, dev nvme0n1, sector 9", "disk.kernel_errors", "nvme0n1"),
            (
                "mce: CPU7: Package temperature above threshold, cpu clock throttled",
                "cpu.thermal",
                "7",
            ),
            ("ata3.00: failed command: READ FPDMA QUEUED", "disk.kernel_errors", "ata3.00"),
            ("nvme nvme0: I/O 5 QID 3 timeout, aborting", "disk.kernel_errors", "nvme0"),
            (
                "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be0",
                "cpu.kernel_errors",
                "3",
            ),
            (
                "CPU12: Core temperature is above threshold, cpu clock is throttled (total events = 1)",
                "cpu.thermal",
                "12",
            ),
            (
                "virtio-pci 0000:02:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible",
                "pci.aer.fatal",
                "0000:02:00.0",
            ),
            (
                "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal)",
                "pci.aer.nonfatal",
                "0000:00:01.0",
            ),
            ("igb 0000:03:00.0 eno1: PCIe link lost", "pci.kernel_errors", "0000:03:00.0"),
            (
                "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off",
                "pci.kernel_errors",
                "0000:3b:00",
            ),
            (
                "NETDEV WATCHDOG: eno1 (i40e): transmit queue 3 timed out",
                "nic.kernel_errors",
                "eno1",
            ),
            ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:1]", "os.lockup", "3"),
            (
                "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0",
                "memory.kernel_errors",
                "CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
            ),
            ("[Firmware Bug]: TSC doesn't count with P0 frequency!", "firmware.bug", ""),
        ]);
    }

    #[test]
    fn messages_of_new_kernels_and_of_scsi_addresses_name_their_part() {
        check(&[
            (
                "EDAC MC0: 1 CE scrub corrected error on P0_Node0 DIMM_B2 (node:0 card:0 module:3",
                "memory.kernel_errors",
                "P0_Node0 DIMM_B2",
            ),
            (
                "i40e 0000:3b:00.0 eno1: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5376 ms",
                "nic.kernel_errors",
                "eno1",
            ),
            (
                "r8169 0000:03:00.0 enp3s0 (unregistering): NETDEV WATCHDOG: CPU: 7: transmit queue 0 timed out 5567 ms",
                "nic.kernel_errors",
                "enp3s0",
            ),
            (
                "sd 2:0:1:0: Device offlined - not ready after error recovery",
                "disk.kernel_errors",
                "2:0:1:0",
            ),
            ("sd 0:2:0:0: rejecting I/O to offline device", "disk.kernel_errors", "0:2:0:0"),
            ("rcu: INFO: rcu_sched self-detected stall on CPU", "os.lockup", ""),
            ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "os.lockup", ""),
            (
                "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 4-... } 6 jiffies",
                "os.lockup",
                "",
            ),
            ("INFO: rcu_sched self-detected stall on CPU", "os.lockup", ""),
            (
                "nvme nvme0: Disabling device after reset failure: -19",
                "disk.kernel_errors",
                "nvme0",
            ),
            (
                "[Hardware Error]: CPU:2 (19:1:1) MC18_STATUS[Over|UE|MiscV|-|-|-|-]: 0xbc",
                "cpu.kernel_errors",
                "2",
            ),
            (
                "EDAC MC0: 1 UE on mc#0csrow#3channel#0 (csrow:3 channel:0 page:0x0)",
                "memory.kernel_errors",
                "mc#0csrow#3channel#0",
            ),
        ]);
    }

    #[test]
    fn messages_of_healthy_machines_are_ignored() {
        let quiet = [
            "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
            "ata2: SATA link down (SStatus 0 SControl 300)",
            "critical target error, dev sda, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8800",
            "I/O error, dev sda, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8800",
            "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, MMU Fault",
            "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
            "mce: CPU0: Thermal monitoring enabled (TM1)",
            "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: 8c00004000010092",
            "EXT4-fs (sda1): mounted filesystem with ordered data mode",
            "[Hardware Error]: CPU:2 (19:1:1) MC18_STATUS[Over|CE|MiscV|-|-|-|-]: 0xbc",
            // Written by others.
            "usb 1-1: Product: I/O error, dev sda, sector 5",
            "BTRFS: device label PCIe Bus Error: severity=Uncorrected (Fatal) 0000:00:02.0 devid 1 transid 7 /dev/vda1",
            "input: PCIe Bus Error: severity=Uncorrected (Fatal) as /devices/pci0000:00/0000:00:02.0/usb1/input5",
            "hid-generic 0003:1234:5678.0001: input,hidraw0: USB HID v1.11 Keyboard [PCIe Bus Error: severity=Uncorrect (Fatal)] on usb-0000:00:02.0-1/input0",
            "microsoft 0003:045E:0040.0001: input,hidraw0: USB HID v1.11 Mouse [I/O error, dev sda, sector 1] on usb-0000:00:14.0-1/input0",
            "uvcvideo 1-1:1.0: Found UVC 1.00 device I/O error, dev sda, sector 5 (1234:5678)",
            "uvcvideo 1-1:1.0: Found UVC 1.00 device NETDEV WATCHDOG: eno1 transmit queue 0 timed out (1234:5678)",
            "other 1-1:1.0: device [Hardware Error]: CPU:2 (19:1:1) MC1_STATUS[Over|UE|x (1234:5678)",
            "other 1-1:1.0: sd 0:0:0:0: [sda] Sense Key : Medium Error",
            "ata1.00: ATA-9: failed command: READ, 1.0, max UDMA/133",
            "XFS (PCIe Bus Error: severity=Uncorrected (Fatal) 0000:00:02.0: x): Mounting",
            "BTRFS: device label mce: [Hardware Error]: CPU 0: Machine Check devid 1 transid 7 /dev/vda1",
            "scsi 0:0:0:0: Direct-Access     XXdevice inaccessible     1.0  PQ: 0 ANSI: 5",
            "Kernel command line: BOOT_IMAGE=x note=\"0000:00:01.0 device inaccessible\"",
        ];
        for text in quiet {
            assert_eq!(message(&format!("6,1,1,-;{text}\n")), None, "{text}");
        }
        assert_eq!(message("12,1,1,-;I/O error, dev sda, sector 5\n"), None, "of a program");
        assert_eq!(message("I/O error, dev sda"), None);
    }

    #[test]
    fn every_pattern_has_a_known_code_and_a_piece() {
        assert!(ROWS.len() > 25);
        for Row { code, subject, wanted, .. } in ROWS.iter() {
            assert!(crate::findings::row(code).is_some(), "{code}");
            assert!(!subject.is_empty() && wanted.len() > 10, "{wanted}");
        }
    }
}
