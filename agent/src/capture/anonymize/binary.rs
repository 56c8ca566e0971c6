//! Secrets in binary files: the pages of a SCSI device, answers of RAID controllers.

use super::collect::Secrets;
use super::fields::latin;

/// Collects what `content`, read from `path`, holds.
pub(super) fn in_file(path: &str, content: &[u8], secrets: &mut Secrets) {
    if let Some((_, question)) =
        path.strip_prefix("kernel/megaraid/").and_then(|path| path.split_once('/'))
    {
        return in_raid_answer(question, content, secrets);
    }
    match path.rsplit('/').next().unwrap_or_default() {
        "vpd_pg80" => secrets.text(&latin(content.get(4..).unwrap_or_default())),
        "vpd_pg83" => in_designators(content.get(4..).unwrap_or_default(), secrets),
        _ => {}
    }
}

/// Designators of a device identification page (T10 SPC-5 §7.7.6).
fn in_designators(page: &[u8], secrets: &mut Secrets) {
    let mut rest = page;
    while let [codes, kind, _, length, ..] = rest {
        let Some(designator) = rest.get(4..4 + usize::from(*length)) else { return };
        match (codes & 0x0f, kind & 0x0f) {
            (1, 2 | 3) => secrets.digits(&formats::hex::hex(designator)),
            // After the vendor's eight characters; the model may come first.
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

/// Names and addresses of drives, enclosures and volumes in what the firmware of a MegaRAID controller
/// answers; offsets as in the probe `block::raid`.
fn in_raid_answer(question: &str, answer: &[u8], secrets: &mut Secrets) {
    let part = |from: usize, n: usize| {
        let rest = answer.get(from..).unwrap_or_default();
        rest.get(..n).unwrap_or(rest)
    };
    match question {
        // Ports on both sides.
        "controller" => {
            in_addresses(part(40, 64), secrets);
            in_addresses(part(112, 64), secrets);
        }
        "drives" => {
            let drives = answer.get(8..).unwrap_or_default().chunks_exact(24);
            drives.for_each(|drive| in_addresses(&drive[8..], secrets));
        }
        _ if question.ends_with("-page-00") => secrets.text(&latin(part(36, 20))),
        _ if question.ends_with("-page-80") => secrets.text(&latin(part(4, 248))),
        _ if question.ends_with("-page-83") => in_designators(part(4, 248), secrets),
        _ if question.starts_with("drive-") => {
            secrets.text(&latin(part(4 + 36, 20)));
            in_designators(part(100 + 4, 60), secrets);
            in_addresses(part(200, 32), secrets);
            in_designators(part(294 + 4, 60), secrets);
        }
        _ if question.starts_with("volume-") => in_designators(part(304 + 4, 60), secrets),
        _ => {}
    }
}

/// SAS addresses, little endian.
fn in_addresses(bytes: &[u8], secrets: &mut Secrets) {
    let addresses = bytes.chunks_exact(8).filter_map(|bytes| bytes.first_chunk());
    for address in addresses.map(|bytes| u64::from_le_bytes(*bytes)) {
        secrets.digits(&format!("{address:016x}"));
    }
}
