//! Finds the partitions of a disk that are kept, and checks that each pattern keeps one.

use formats::partition_filter::Filter;
use probes::block::{Disk, Partition};

use super::{Code, Failure, Say, Term, describe, say};
use crate::clean;

/// Partitions to keep.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved(Vec<Kept>);

/// One pattern or range, with its key and text as in the order.
#[derive(Debug, Clone)]
struct Kept {
    text: Say,
    filter: Filter,
}

impl Saved {
    /// Reads the patterns of labels, and the numbers and ranges.
    ///
    /// # Errors
    /// `INSTRUCTION_INVALID`.
    pub(super) fn parse(labels: &[String], numbers: &[String]) -> Result<Self, Failure> {
        let mut kept = Vec::new();
        let labels = labels.iter().map(|text| (Term::SavePartlabel, text));
        for (key, texts) in labels.chain(numbers.iter().map(|text| (Term::SavePartindex, text))) {
            for text in texts.split(',') {
                let one = [text.to_owned()];
                let is_label = key == Term::SavePartlabel;
                let (labels, numbers) =
                    if is_label { (&one[..], &[][..]) } else { (&[][..], &one[..]) };
                let filters = Filter::parse_all(labels, numbers).ok().filter(|_| !text.is_empty());
                let filters = filters.ok_or_else(|| {
                    let expected = ", expected labels, shell patterns such as data*, or numbers and ranges such as \
                         5 or 5-7";
                    let what = say![key, " contains ", clean::quoted(text, 100), expected];
                    Failure::new(Code::InstructionInvalid, what)
                })?;
                let text = say![key, format!(" {text:?}")];
                kept.extend(filters.into_iter().map(|filter| Kept { text: text.clone(), filter }));
            }
        }
        Ok(Self(kept))
    }

    /// True if a partition is kept.
    pub(super) fn keeps(&self, part: &Partition) -> bool {
        self.0.iter().any(|kept| kept.keeps(part))
    }

    /// Refuses if a pattern matches no partition of the disk: the data that it should keep would be overwritten.
    ///
    /// # Errors
    /// `SAVED_PARTITION` with the patterns, and the labels that exist.
    pub(super) fn check(&self, disk: &Disk) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let is_lost = |kept: &&Kept| !disk.partitions.iter().any(|part| kept.keeps(part));
        let lost = self.0.iter().filter(is_lost).map(|kept| kept.text.clone());
        let refuse = |what: Say| {
            Failure::new(Code::SavedPartition, what)
                .advise("correct the pattern (case counts), or remove it if nothing is to be kept")
        };
        if let Some(lost) = lost.reduce(|all, next| say![all, ", ", next]) {
            let claim = format!("no partition of {} matches ", describe(disk));
            return Err(refuse(say![claim, lost, "; ", there(disk)]));
        }
        // coreos-installer keeps partitions of a GPT only.
        match disk.partition_table.as_deref() {
            Some("gpt") | None => Ok(()),
            Some(kind) => {
                let disk = describe(disk);
                let what = format!(
                    "{disk} has a partition table of kind {kind}; only those of a GPT can be kept"
                );
                Err(refuse(what.into()))
            }
        }
    }

    /// Refuses if the table on the disk lists other partitions to keep than the kernel, given as number and first byte:
    /// coreos-installer reads that, and keeps no other.
    ///
    /// # Errors
    /// `SAVED_PARTITION` with those that one of them lacks.
    pub(super) fn check_table(&self, disk: &Disk, listed: &[(u32, u64)]) -> Result<(), Failure> {
        let is_it = |part: &Partition, (number, at): (u32, u64)| {
            part.number == Some(number) && part.start_bytes.is_none_or(|start| start == at)
        };
        let kept: Vec<&Partition> = disk.partitions.iter().filter(|p| self.keeps(p)).collect();
        let absent = kept.iter().filter(|part| !listed.iter().any(|entry| is_it(part, *entry)));
        let unknown = listed.iter().filter(|entry| !kept.iter().any(|part| is_it(part, **entry)));
        let wrong: Vec<String> = absent
            .map(|part| {
                format!("{} is not in the table on the disk as the kernel has it", part.name)
            })
            .chain(
                unknown
                    .map(|(number, _)| format!("the kernel does not have its partition {number}")),
            )
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let what = format!("the partitions to keep on {}: {}", describe(disk), wrong.join("; "));
        Err(Failure::new(Code::SavedPartition, what).advise(
            "have the kernel read the table again (partprobe), or restore the table (sgdisk), then start again",
        ))
    }

    /// Refuses partitions to keep that begin within an image of `image_bytes`: coreos-installer would find that out after
    /// it has written everything before them.
    ///
    /// # Errors
    /// `SAVED_PARTITION` with the first of them.
    pub(super) fn check_beyond(&self, disk: &Disk, image_bytes: u64) -> Result<(), Failure> {
        let is_within = |part: &&Partition| part.start_bytes.is_some_and(|at| at < image_bytes);
        let kept = disk.partitions.iter().filter(|part| self.keeps(part));
        let Some(part) = kept.filter(is_within).min_by_key(|part| part.start_bytes) else {
            return Ok(());
        };
        let what = format!(
            "{} of {} is to be kept, but begins at byte {}, and the image has {image_bytes} bytes",
            part.name,
            describe(disk),
            part.start_bytes.unwrap_or_default()
        );
        Err(Failure::new(Code::SavedPartition, what).advise(
            "move the partition past the end of the image, keep another one, or install a smaller image",
        ))
    }
}

impl Kept {
    fn keeps(&self, part: &Partition) -> bool {
        let label = part.label.as_deref().unwrap_or_default();
        part.number.is_some_and(|number| self.filter.matches(number, label))
    }
}

/// Describes the partitions of a disk.
fn there(disk: &Disk) -> String {
    let name = |part: &Partition| {
        let number = part.number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        part.label.as_ref().map_or(number.clone(), |label| format!("{number} {label:?}"))
    };
    let names: Vec<String> = disk.partitions.iter().take(64).map(name).collect();
    if names.is_empty() {
        return "it has no partition".to_owned();
    }
    format!("it has {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::{partition, texts};

    fn disk() -> Disk {
        let part = |number, label| partition("sda", number, label, "");
        Disk {
            device: "/dev/sda".into(),
            partition_table: Some("gpt".into()),
            partitions: vec![part(4, "root"), part(5, "Data1"), part(6, "")],
            ..Disk::default()
        }
    }

    fn check(labels: &[&str], numbers: &[&str]) -> Result<(), Failure> {
        Saved::parse(&texts(labels), &texts(numbers))?.check(&disk())
    }

    #[test]
    fn pattern_that_matches_no_partition_is_refused_with_the_labels_that_exist() {
        let failure = check(&["data*"], &[]).unwrap_err();
        assert_eq!(failure.code, Code::SavedPartition);
        assert_eq!(
            failure.message.to_string(),
            "no partition of /dev/sda (size unknown) matches save_partlabel \"data*\"; \
             it has 4 \"root\", 5 \"Data1\", 6"
        );
        assert!(check(&["root", "x"], &[]).unwrap_err().to_string().contains("\"x\""));
        assert_eq!(check(&["root,x"], &[]).unwrap_err().code, Code::SavedPartition);
        for numbers in ["7", "7-", "1-3", "-3", "5,9"] {
            assert_eq!(check(&[], &[numbers]).unwrap_err().code, Code::SavedPartition, "{numbers}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for (label, number) in
            [("[a", "5"), ("", "5"), ("a", "-"), ("a", "x"), ("a", "0"), ("a", "7-5")]
        {
            let failure = check(&[label], &[number]).unwrap_err();
            assert_eq!(failure.code, Code::InstructionInvalid, "{label} {number}");
        }
    }

    #[test]
    fn partitions_of_a_dos_table_cannot_be_kept() {
        let disk = Disk { partition_table: Some("dos".into()), ..disk() };
        let saved = Saved::parse(&[], &["5".to_owned()]).unwrap();
        assert_eq!(saved.check(&disk).unwrap_err().code, Code::SavedPartition);
    }

    #[test]
    fn partition_to_keep_must_be_in_the_table_on_the_disk_as_in_the_kernel() {
        let mut disk = disk();
        disk.partitions[1].start_bytes = Some(1 << 20);
        let saved = Saved::parse(&texts(&["Data*"]), &texts(&["6"])).unwrap();
        let check = |listed: &[(u32, u64)]| saved.check_table(&disk, listed);
        assert_eq!(check(&[(5, 1 << 20), (6, 9 << 20)]), Ok(()));
        for (listed, expected) in [
            (&[][..], "sda5 is not in the table on the disk as the kernel has it; sda6"),
            (&[(5, 2 << 20), (6, 0)], "sda5 is not"),
            (&[(5, 1 << 20), (6, 0), (7, 0)], "the kernel does not have its partition 7"),
        ] {
            let failure = check(listed).unwrap_err();
            assert_eq!(failure.code, Code::SavedPartition);
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn partition_to_keep_that_begins_within_the_image_is_refused() {
        let part = |number: u32, start_bytes| Partition {
            name: format!("sda{number}"),
            number: Some(number),
            start_bytes: Some(start_bytes),
            ..Partition::default()
        };
        let partitions = vec![part(1, 1 << 20), part(5, 10 << 20), part(6, 20 << 20)];
        let disk = Disk { device: "/dev/sda".into(), partitions, ..Disk::default() };
        let check = |numbers: &str, bytes| {
            let saved = Saved::parse(&[], &[numbers.to_owned()]).unwrap();
            saved.check_beyond(&disk, bytes).map_err(|failure| failure.to_string())
        };
        assert_eq!(check("5-6", 10 << 20), Ok(()));
        let why = check("5-6", (10 << 20) + 1).unwrap_err();
        assert!(why.contains("sda5 of /dev/sda"), "{why}");
        assert!(why.contains("begins at byte 10485760, and the image has 10485761"), "{why}");
    }
}
