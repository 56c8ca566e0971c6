//! Faults for people: part and place in front, then the evidence and one line of advice.

use probes::faults::{Fault, Suspect};

use super::page::{Page, counted, with};
use super::severity;

/// Number of suspects to print for one fault; more are counted.
const MOST_SUSPECTS: usize = 8;

/// The faults, worst first; nothing if there are none.
pub(super) fn faults(page: &mut Page, faults: &[Fault]) {
    if faults.is_empty() {
        return;
    }
    page.section(&format!("faults ({})", faults.len()));
    for fault in faults {
        let (tone, word) = severity(fault.severity);
        let first = match fault.suspects.as_slice() {
            [] => "unknown part".to_owned(),
            [only] => suspect(only),
            several => format!("one of {} parts", several.len()),
        };
        page.toned(tone, 1, &format!("{word} {first}: {}", fault.class));
        if fault.suspects.len() > 1 {
            page.lines(5, fault.suspects.iter().take(MOST_SUSPECTS).map(suspect));
            let n_more = fault.suspects.len().saturating_sub(MOST_SUSPECTS);
            if n_more > 0 {
                page.line(5, &format!("and {}", counted(n_more, "other part")));
            }
        }
        for evidence in &fault.evidence {
            page.line(3, &format!("{}: {}", evidence.source, evidence.observed));
        }
        page.line(3, &fault.advice);
    }
}

/// Part, place, label, and certainty.
fn suspect(suspect: &Suspect) -> String {
    let place = suspect.label.as_ref().filter(|label| !suspect.part.contains(label.as_str()));
    let place = with(" in ", place);
    let unit = suspect.fru.as_ref().map(|fru| {
        let part = fru.part_number.as_ref().map(|number| format!("part {number}"));
        let serial = fru.serial.as_ref().map(|serial| format!("serial {serial}"));
        let facts = [fru.manufacturer.clone(), fru.model.clone(), part, serial];
        format!(" ({})", facts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    });
    let unit = unit.unwrap_or_default();
    format!("{}{place}{unit}, {} % certain", suspect.part, suspect.certainty_percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::text_of;
    use serde_json::{Value, json};

    fn page(suspects: &Value) -> String {
        let fault = json!({
            "class": "disk.failing", "severity": "critical", "suspects": suspects, "evidence": [],
            "advice": "Replace it.",
        });
        let fault: Fault = serde_json::from_value(fault).unwrap();
        text_of(|page| faults(page, &[fault])).lines().skip(1).collect::<Vec<_>>().join("\n")
    }

    fn part(n: u8) -> Value {
        json!({"part": format!("disk sd{n}"), "label": "bay 3", "certainty_percent": 40})
    }

    #[test]
    fn part_place_and_unit_come_first() {
        let mut suspect = part(1);
        suspect["fru"] = json!({"model": "ST4000", "serial": "SERIAL-01"});
        let line =
            " critical disk sd1 in bay 3 (ST4000, serial SERIAL-01), 40 % certain: disk.failing";
        assert_eq!(page(&json!([suspect])), format!("faults (1)\n{line}\n   Replace it."));
    }

    #[test]
    fn several_suspects_are_listed_and_many_are_counted() {
        let text = page(&(0..10).map(part).collect());
        assert!(text.contains(" critical one of 10 parts: disk.failing\n"), "{text}");
        assert!(text.contains("     disk sd7 in bay 3, 40 % certain\n     and 2 other parts\n"));
        assert!(page(&json!([])).contains("unknown part: "));
    }
}
