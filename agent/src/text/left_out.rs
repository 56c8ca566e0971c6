//! The sections that `check --only` does not judge: the kernel log, for one, has findings about every kind of part.

use probes::collect::COLLECTORS;
use probes::findings::collectors;

/// Finding components whose sources can be left out.
const COMPONENTS: [&str; 10] =
    ["os", "bmc", "memory", "disk", "cpu", "nic", "pci", "power", "firmware", "identity"];

/// Describes the sections with findings that `only` leaves out; `None` if there are none.
pub fn left_out(only: &[String]) -> Option<String> {
    if only.is_empty() {
        return None;
    }
    let mut sections: Vec<&str> = Vec::new();
    let names = COMPONENTS.into_iter().flat_map(collectors);
    for name in names {
        let filled = COLLECTORS.iter().filter(|collector| collector.name == *name);
        for section in filled.flat_map(|collector| collector.sections) {
            if !sections.contains(section) && !only.iter().any(|asked| asked == section) {
                sections.push(section);
            }
        }
    }
    let sections: Vec<&str> = sections.into_iter().map(described).collect();
    let list = sections.join(", ");
    (!list.is_empty()).then(|| format!("Not judged because of --only: {list}."))
}

/// Names a section, with its unexpected contents.
fn described(section: &str) -> &str {
    match section {
        "os" => "os (with the kernel log)",
        "bmc" => "bmc (with sensors and event log)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::collect::sections;
    use probes::findings::rows;

    fn left_out_by(only: &[&str]) -> Option<String> {
        left_out(&only.iter().map(|section| (*section).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn sections_that_were_asked_for_are_not_listed() {
        let note = left_out_by(&["block"]).unwrap();
        let start = "Not judged because of --only: os (with the kernel log), bmc (with sensors and";
        assert!(note.starts_with(start) && !note.contains("block"), "{note}");
        let note = left_out_by(&["block", "os"]).unwrap();
        assert!(!note.contains("os (") && note.contains("memory"), "{note}");
        assert_eq!((left_out(&[]), left_out_by(&sections())), (None, None));
    }

    #[test]
    fn every_component_of_a_finding_that_has_sources_is_considered() {
        for row in rows().filter(|row| !collectors(row.component).is_empty()) {
            assert!(COMPONENTS.contains(&row.component), "{}", row.component);
        }
    }
}
