//! Secrets in binary files: strings of SMBIOS structures and the pages of a SCSI device.

use super::collect::Secrets;

/// Where a structure keeps the numbers of its strings for serial number and asset tag
/// (DSP0134 3.7, §7.2 to §7.5, §7.18, §7.23, §7.40).
const SMBIOS_STRINGS: [(u8, &[usize]); 7] = [
    (1, &[0x07]),
    (2, &[0x07, 0x08]),
    (3, &[0x07, 0x08]),
    (4, &[0x20, 0x21]),
    (17, &[0x18, 0x19]),
    (22, &[0x07]),
    (39, &[0x08, 0x09]),
];

/// Collects what `content`, read from `path`, holds.
pub(super) fn in_file(path: &str, content: &[u8], secrets: &mut Secrets) {
    match path.rsplit('/').next().unwrap_or_default() {
        "DMI" => in_smbios(content, secrets),
        "vpd_pg80" => secrets.text(&latin(content.get(4..).unwrap_or_default())),
        "vpd_pg83" => in_designators(content.get(4..).unwrap_or_default(), secrets),
        _ => {}
    }
}

/// Walks the structures: a formatted area of the length that it states, and strings up to two zeros.
fn in_smbios(table: &[u8], secrets: &mut Secrets) {
    let mut rest = table;
    while let [kind, length, ..] = rest {
        let Some((formatted, behind)) = rest.split_at_checked(usize::from(*length)) else { return };
        let end = behind.windows(2).position(|pair| pair == [0, 0]);
        let (Some(end), true) = (end, formatted.len() >= 4) else { return };
        let strings: Vec<&[u8]> = behind[..end].split(|byte| *byte == 0).collect();
        let offsets = SMBIOS_STRINGS.iter().find(|(known, _)| known == kind);
        for number in
            offsets.iter().flat_map(|(_, offsets)| *offsets).filter_map(|at| formatted.get(*at))
        {
            let string = usize::from(*number).checked_sub(1).and_then(|at| strings.get(at));
            secrets.text(&latin(string.copied().unwrap_or_default()));
        }
        rest = &behind[end + 2..];
    }
}

/// Designators of a device identification page (T10 SPC-5 §7.7.6).
fn in_designators(page: &[u8], secrets: &mut Secrets) {
    let mut rest = page;
    while let [codes, kind, _, length, ..] = rest {
        let Some(designator) = rest.get(4..4 + usize::from(*length)) else { return };
        match (codes & 0x0f, kind & 0x0f) {
            (1, 2 | 3) => secrets.digits(&crate::digest::hex(designator)),
            // Behind the maker's eight characters; the model may come first.
            (2, 1) => {
                let text = latin(designator.get(8..).unwrap_or_default());
                secrets.text(text.split_whitespace().last().unwrap_or_default());
            }
            (2 | 3, 0) => secrets.text(&latin(designator)),
            (3, 8) => secrets.named("wwid", &latin(designator)),
            _ => {}
        }
        rest = rest.get(4 + usize::from(*length)..).unwrap_or_default();
    }
}

fn latin(bytes: &[u8]) -> String {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    text.trim_matches(['\0', ' ']).to_owned()
}
