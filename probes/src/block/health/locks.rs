//! Level 0 Discovery of TCG, which reports whether a self-encrypting disk is locked. Only a disk that
//! lists the protocol is asked, because a refusal ends up in the disk's error log.

use crate::machine::Machine;
use crate::sys::Question;
use crate::sys::disk::DiskHandle;
use crate::sys::nvme::{NvmePage, NvmeQuestion};
use crate::sys::scsi::{ScsiCommand, ScsiQuestion};
use formats::tcg::{self, DiskTcg};

/// Commands to a SCSI disk that list the protocols and discover the locks.
pub(super) const SCSI: [ScsiCommand; 2] = [ScsiCommand::SecurityProtocols, ScsiCommand::TcgLevel0];
/// The same to a disk of the kernel's own ATA driver.
pub(super) const ATA: [ScsiCommand; 2] =
    [ScsiCommand::AtaSecurityProtocols, ScsiCommand::AtaTcgLevel0];

/// From a disk, by these commands.
pub(super) fn of_disk(
    machine: &Machine,
    disk: &DiskHandle,
    commands: [ScsiCommand; 2],
) -> Option<DiskTcg> {
    let [list, level_0] = commands.map(|command| ScsiQuestion { disk, command });
    discover(machine, &list, &level_0)
}

/// From an NVMe controller.
pub(super) fn of_nvme(machine: &Machine, controller: &str) -> Option<DiskTcg> {
    let pages = [NvmePage::SecurityProtocols, NvmePage::TcgLevel0];
    let [list, level_0] =
        pages.map(|page| NvmeQuestion { controller: controller.to_owned(), page });
    discover(machine, &list, &level_0)
}

fn discover(machine: &Machine, list: &dyn Question, level_0: &dyn Question) -> Option<DiskTcg> {
    machine.ask(list).filter(|protocols| tcg::is_listed(protocols))?;
    match tcg::level_0(&machine.ask(level_0)?) {
        Ok(tcg) => Some(tcg),
        Err(found) => {
            let path = format!("kernel/{}", level_0.name());
            machine.problem(&path, found, "a header of 48 bytes, followed by TCG features");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::block::Disk;
    use crate::machine::Machine;
    use crate::testing::bytes::identify_page as page;
    use crate::testing::bytes::{opal, protocols};
    use crate::testing::{SAS, SATA, USB, disk_at};

    const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
    const VOLUME: &str = "pci0000:00/0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda";
    /// A disk at each place where it is asked for its locks, with the words of its IDENTIFY DEVICE.
    const ASKED: [(&str, &[(usize, u16)]); 3] = [(NVME, &[]), (SATA, &[(48, 0x4001)]), (SAS, &[])];

    /// A machine with the disk at `path`, whose VPD page 89h says `words` and `model`, with these answers.
    fn machine_of(
        path: &str,
        (words, model): (&[(usize, u16)], &str),
        answers: &[(&str, &[u8])],
    ) -> Machine {
        let identify = page(words, &[(27, model)]);
        let mut files = vec![("device/vpd_pg89".to_owned(), &identify[..])];
        files.extend(answers.iter().map(|(path, answer)| (format!("kernel/{path}"), *answer)));
        disk_at(path, &files)
    }

    fn disk(path: &str, words: &[(usize, u16)], answers: &[(&str, &[u8])]) -> Disk {
        crate::block::block(&machine_of(path, (words, "X"), answers)).disks.remove(0)
    }

    fn is_locked(disk: &Disk) -> Option<bool> {
        disk.tcg.as_ref()?.is_locked
    }

    /// The answers of a locked disk to every question that one of the kinds could be asked.
    fn locked(oacs: u8, answers: impl Fn(&[(&str, &[u8])])) {
        let mut identify = vec![0; 4096];
        identify[256] = oacs;
        let (list, level_0) = (protocols(&[0, 1]), opal(0b111));
        let mut power = vec![0; 22];
        (power[0], power[8], power[13]) = (0x72, 0x09, 0xff);
        answers(&[
            ("nvme/nvme0/identify", &identify),
            ("nvme/nvme0/security-protocols", &list),
            ("nvme/nvme0/tcg-level-0", &level_0),
            ("scsi/sda/ata-power-mode", &power),
            ("scsi/sda/ata-security-protocols", &list),
            ("scsi/sda/ata-tcg-level-0", &level_0),
            ("scsi/sda/security-protocols", &list),
            ("scsi/sda/tcg-level-0", &level_0),
        ]);
    }

    #[test]
    fn locked_disk_is_not_eligible_and_says_why_on_nvme_sata_and_sas_even_if_it_cannot_be_read() {
        let failed = ("errors", &b"5 kernel/disk/sda/0-4096\n5 kernel/disk/nvme0n1/0-4096\n"[..]);
        locked(1, |answers| {
            for (path, words) in ASKED {
                let unreadable = [answers, &[failed]].concat();
                for disk in [disk(path, words, answers), disk(path, words, &unreadable)] {
                    assert_eq!((is_locked(&disk), &disk.health), (Some(true), &None), "{path}");
                    let reasons = disk.not_eligible_because.join("; ");
                    assert!(
                        !disk.eligible && reasons.contains("locked by TCG Opal 2"),
                        "{reasons}"
                    );
                }
            }
        });
    }

    #[test]
    fn disk_that_does_not_claim_security_commands_is_not_asked() {
        locked(0, |answers| {
            assert_eq!(disk(NVME, &[], answers).tcg, None);
            // The same bit in a word that is not valid, and a valid word without it.
            for word in [0x0001, 0x4000] {
                assert_eq!(disk(SATA, &[(48, word)], answers).tcg, None);
            }
        });
        locked(1, |answers| {
            let other = protocols(&[0, 0xef]);
            let answers = [answers, &[("nvme/nvme0/security-protocols", &other)]].concat();
            assert_eq!(disk(NVME, &[], &answers).tcg, None, "it does not list the protocol");
        });
    }

    #[test]
    fn usb_disks_and_raid_volumes_are_never_sent_a_security_command() {
        let words = &[(48, 0x4001), (82, 1), (85, 1)];
        locked(1, |answers| {
            for (path, model) in [(USB, "X"), (VOLUME, "X"), (SATA, "DELLBOSS VD ")] {
                let machine = machine_of(path, (words, model), answers);
                assert_eq!(crate::block::block(&machine).disks[0].tcg, None, "{path}");
            }
        });
    }

    #[test]
    fn damaged_answer_is_a_problem_naming_the_question() {
        locked(1, |answers| {
            let answers = [answers, &[("nvme/nvme0/tcg-level-0", &[0; 2048][..])]].concat();
            let machine = machine_of(NVME, (&[], "X"), &answers);
            assert_eq!(crate::block::block(&machine).disks[0].tcg, None);
            let problem = &machine.problems()[0];
            assert_eq!(problem.path, "/kernel/nvme/nvme0/tcg-level-0");
            assert_eq!(problem.found, "a length of 0 bytes");
        });
    }
}
