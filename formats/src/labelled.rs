//! Lines of a name, a colon and a value: `/proc/cpuinfo` (`arch/arm/kernel/setup.c`, `arch/s390/kernel/processor.c`),
//! `/proc/sysinfo` (`arch/s390/kernel/sysinfo.c`), and the `symbolic_name` of a Fibre Channel port (FC-GS-8, §5.2.3).

use crate::{Field, Kind};

/// The serial number of an Arm board, and the number of an s390 processor, which ends with its machine's.
pub fn cpuinfo(text: &str) -> Vec<Field> {
    let in_line = |line: &str| {
        if let Some((_, after)) = line.split_once("identification =") {
            let value = after.split(',').next().unwrap_or_default();
            return Some(Field::in_text(text, value.trim(), Kind::FreeText));
        }
        let (name, value) = line.split_once(':')?;
        (name.trim() == "Serial").then(|| Field::in_text(text, value.trim(), Kind::Serial))
    };
    text.lines().filter_map(in_line).collect()
}

/// The number of an s390 machine, and the names of its partition and each virtual machine within it.
pub fn sysinfo(text: &str) -> Vec<Field> {
    let in_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kind = match name.trim() {
            "Sequence Code" => Kind::Serial,
            name if name.ends_with(" Name") => Kind::HostName,
            _ => return None,
        };
        Some(Field::in_text(text, value.trim(), kind))
    };
    text.lines().filter_map(in_line).collect()
}

/// The host in the name of a Fibre Channel port: `… HN:<host> OS:Linux`. A name without a driver's labels is
/// whatever a person chose.
pub fn symbolic_name(text: &str) -> Vec<Field> {
    let is_of_driver = [" FW:", " FV", " DVR:", " over "].iter().any(|label| text.contains(label));
    let (name, kind) = match text.split_once("HN:") {
        Some((_, name)) => {
            let name = name.split(char::is_whitespace).next().unwrap_or_default();
            (name.trim_end_matches('.'), Kind::HostName)
        }
        None if is_of_driver => ("", Kind::FreeText),
        None => (text.trim(), Kind::FreeText),
    };
    let field = (!name.is_empty()).then(|| Field::in_text(text, name, kind));
    field.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    #[test]
    fn the_numbers_of_boards_and_processors_are_fields() {
        let text = "Hardware\t: BCM2835\nSerial\t\t: 00000000acf9d788\n\
                    processor 0: version = FF,  identification = 29AA14,  machine = 2817\n";
        let expected = [(Kind::Serial, "00000000acf9d788"), (Kind::FreeText, "29AA14")];
        assert_fields(&cpuinfo(text), text, &expected);
    }

    #[test]
    fn the_names_of_partitions_and_guests_are_fields() {
        let text = "Type:   2817\nSequence Code:        00000000000EAA14\nLPAR Name:            R17 \n\
                    VM00 Name:            R1745003\nVM00 Control Program: z/VM    6.1.0   \n";
        let expected = [
            (Kind::Serial, "00000000000EAA14"),
            (Kind::HostName, "R17"),
            (Kind::HostName, "R1745003"),
        ];
        assert_fields(&sysinfo(text), text, &expected);
    }

    #[test]
    fn a_fibre_channel_name_reveals_its_host() {
        let text = "Emulex LPe16002 FV11.4 DV12.8 HN:db17.corp.example. OS:Linux\n";
        let host = [(Kind::HostName, "db17.corp.example")];
        assert_fields(&symbolic_name(text), text, &host);
        assert!(symbolic_name("QLE2692 FW:v9.06 DVR:v10.02\n").is_empty());
        assert!(symbolic_name("HN: OS:Linux").is_empty() && symbolic_name("\n").is_empty());
        let name = "acme-array";
        assert_fields(&symbolic_name(name), name, &[(Kind::FreeText, name)]);
    }
}
