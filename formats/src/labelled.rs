//! Lines of a name, a colon and a value: `/proc/cpuinfo` (`arch/arm/kernel/setup.c`, `arch/s390/kernel/processor.c`),
//! `/proc/sysinfo` (`arch/s390/kernel/sysinfo.c`), and the `symbolic_name` of a Fibre Channel port (FC-GS-8, §5.2.3).

use std::ops::Range;

use crate::{Field, Kind};

/// The serial number of an Arm board, and the number of an s390 processor, which ends with its machine's.
pub fn cpuinfo(text: &str) -> Vec<Field> {
    let in_line = |(start, line): (usize, &str)| {
        if let Some((_, after)) = line.split_once("identification =") {
            let value = after.split(',').next().unwrap_or_default();
            let at = start + line.len() - after.len();
            return Some(Field::text(trimmed(at, value), Kind::FreeText));
        }
        let (name, value) = line.split_once(':')?;
        let at = start + line.len() - value.len();
        (name.trim() == "Serial").then(|| Field::text(trimmed(at, value), Kind::Serial))
    };
    lines(text).filter_map(in_line).collect()
}

/// The number of an s390 machine, and the names of its partition and each virtual machine within it.
pub fn sysinfo(text: &str) -> Vec<Field> {
    let in_line = |(start, line): (usize, &str)| {
        let (name, value) = line.split_once(':')?;
        let kind = match name.trim() {
            "Sequence Code" => Kind::Serial,
            name if name.ends_with(" Name") => Kind::HostName,
            _ => return None,
        };
        Some(Field::text(trimmed(start + line.len() - value.len(), value), kind))
    };
    lines(text).filter_map(in_line).collect()
}

/// The host in the name of a Fibre Channel port: `… HN:<host> OS:Linux`. A name without a driver's labels is
/// whatever a person chose.
pub fn symbolic_name(text: &str) -> Vec<Field> {
    if let Some((before, after)) = text.split_once("HN:") {
        let name = after.split_whitespace().next().unwrap_or_default().trim_end_matches('.');
        let is_empty = after.starts_with(char::is_whitespace) || name.is_empty();
        let start = before.len() + "HN:".len();
        let field = Field::text(start..start + name.len(), Kind::HostName);
        return Some(field).filter(|_| !is_empty).into_iter().collect();
    }
    let is_of_driver = [" FW:", " FV", " DVR:", " over "].iter().any(|label| text.contains(label));
    let all = Some(Field::text(trimmed(0, text), Kind::FreeText));
    all.filter(|field| !is_of_driver && !field.span.is_empty()).into_iter().collect()
}

/// The lines and where each begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line)
    })
}

/// Place of `value`, which begins at `start`, without the blanks around it.
fn trimmed(start: usize, value: &str) -> Range<usize> {
    let start = start + value.len() - value.trim_start().len();
    start..start + value.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[Field], text: &str) -> Vec<(Kind, String)> {
        let value = |field: &Field| String::from_utf8_lossy(field.bytes(text.as_bytes())).into();
        fields.iter().map(|field| (field.kind, value(field))).collect()
    }

    #[test]
    fn the_numbers_of_boards_and_processors_are_fields() {
        let text = "Hardware\t: BCM2835\nSerial\t\t: 00000000acf9d788\n\
                    processor 0: version = FF,  identification = 29AA14,  machine = 2817\n";
        let expected =
            [(Kind::Serial, "00000000acf9d788".into()), (Kind::FreeText, "29AA14".into())];
        assert_eq!(found(&cpuinfo(text), text), expected);
    }

    #[test]
    fn the_names_of_partitions_and_guests_are_fields() {
        let text = "Type:   2817\nSequence Code:        00000000000EAA14\nLPAR Name:            R17 \n\
                    VM00 Name:            R1745003\nVM00 Control Program: z/VM    6.1.0   \n";
        let expected = [
            (Kind::Serial, "00000000000EAA14".into()),
            (Kind::HostName, "R17".into()),
            (Kind::HostName, "R1745003".into()),
        ];
        assert_eq!(found(&sysinfo(text), text), expected);
    }

    #[test]
    fn a_fibre_channel_name_reveals_its_host() {
        let text = "Emulex LPe16002 FV11.4 DV12.8 HN:db17.corp.example. OS:Linux\n";
        assert_eq!(
            found(&symbolic_name(text), text),
            [(Kind::HostName, "db17.corp.example".into())]
        );
        assert!(symbolic_name("QLE2692 FW:v9.06 DVR:v10.02\n").is_empty());
        assert!(symbolic_name("HN: OS:Linux").is_empty() && symbolic_name("\n").is_empty());
        assert_eq!(found(&symbolic_name("acme-array"), "acme-array")[0].0, Kind::FreeText);
    }
}
