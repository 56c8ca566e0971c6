//! Decodes each code from the drawn characters.

use probes::faults::Fault;
use probes::findings::{Finding, row};
use serde_json::json;

use super::*;
use crate::machine_name::machine_name;

#[path = "../../../tests/qr_reader.rs"]
mod qr_reader;

const SCREEN: Screen = Screen { columns: 80, rows: 24, is_utf8: true, is_colored: false };
const LARGE: Screen = Screen { columns: 200, rows: 100, ..SCREEN };

fn finding(code: &str, locator: &str, evidence: &str) -> Finding {
    row(code).unwrap().finding(Some(locator.into()), evidence)
}

fn summary(head: &str, findings: &[Finding], faults: &[Fault]) -> Summary {
    Summary::new(head, None, &findings.iter().collect::<Vec<_>>(), faults, 0)
}

/// Decodes the only code in the drawing.
fn read(summary: &Summary, screen: &Screen) -> String {
    let drawn = draw(summary, screen).unwrap();
    let mut texts = qr_reader::read(&drawn);
    assert_eq!(texts.len(), 1, "{drawn}");
    texts.remove(0)
}

fn two() -> [Finding; 2] {
    [
        finding("memory.ecc.uncorrectable", "A1", "5 errors"),
        finding("disk.health.failing", "sda (serial Z1, bay 3)", "failing"),
    ]
}

#[test]
fn code_of_every_form_reads_as_machine_then_each_fault_with_its_advice() {
    let [_, disk] = two();
    let summary = summary("Dell Inc. R650\nserial S1", &two(), &[]);
    let expected = [
        "Dell Inc. R650",
        "serial S1",
        "critical memory.ecc.uncorrectable: memory A1",
        "Replace the DIMM, then check that the count stays at 0.",
        "critical disk.health.failing: disk sda (serial Z1, bay 3)",
        &disk.advice,
    ];
    for (is_utf8, is_colored) in [(true, false), (true, true), (false, false), (false, true)] {
        let screen = Screen { is_utf8, is_colored, ..LARGE };
        assert_eq!(read(&summary, &screen), expected.join("\n"), "{screen:?}");
    }
}

#[test]
fn code_never_exceeds_the_terminal_and_shows_all_that_fits() {
    let many: Vec<Finding> = (0..70).flat_map(|_| two()).collect();
    let summary = summary("Dell Inc. R650", &many, &[]);
    let mut longest = 0;
    for rows in (0..=24).chain([28, 40, 56, 72]) {
        for (columns, is_utf8) in
            [(rows, true), (80, true), (2 * rows + 2, true), (2 * rows + 1, false), (40, false)]
        {
            let screen = Screen { columns, rows, is_utf8, is_colored: rows % 2 == 0 };
            let Some(drawn) = draw(&summary, &screen) else {
                let side =
                    if is_utf8 { columns.min(2 * rows) } else { rows.min((columns - 1) / 2) };
                assert!(side < 21 + 8 + usize::from(is_utf8), "{screen:?}");
                continue;
            };
            let n_escaped = |line: &str| {
                let parts = line.split('m').map(|part| part.split('\u{1b}').next().unwrap());
                parts.map(|part| part.chars().count()).sum::<usize>()
            };
            assert!(drawn.lines().count() <= rows, "{screen:?}");
            assert!(drawn.lines().all(|line| n_escaped(line) < columns), "{screen:?}\n{drawn}");
            // Reading takes longer than drawing.
            if rows % 8 != 0 {
                continue;
            }
            let text = qr_reader::read(&drawn).remove(0);
            if !text.contains('\n') {
                assert!("critical memory.ecc.uncorrectable: memory A1".ends_with(&text), "{text}");
                continue;
            }
            assert!(
                text.starts_with("Dell Inc. R650\ncritical memory.ecc.uncorrectable: memory A1\n")
            );
            assert!(text.contains("\nand "), "{text}");
            longest = longest.max(text.len());
        }
    }
    assert!((700..=858).contains(&longest), "{longest}");
    assert_eq!(
        read(&summary, &SCREEN),
        "Dell Inc. R650\ncritical memory.ecc.uncorrectable: memory A1\nReplace the DIMM, then check that the count stays at 0.\nand 139 more"
    );
}

#[test]
fn ascii_code_of_80_columns_is_shortened_until_it_fits() {
    let head = "Hewlett Packard Enterprise ProLiant DL380 Gen10 Plus\nserial CZJ1234567";
    let disk =
        finding("disk.health.failing", "sda (serial S5GXNF0R123456, bay 12 of PERC H755)", "x");
    let cases = [
        (33, two().to_vec(), "memory A1"),
        (37, two().to_vec(), "critical memory.ecc.uncorrectable: memory A1"),
        (41, vec![disk.clone()], "disk sda (serial S5GXNF0R123456, bay 12 of PERC H755)"),
        (29, vec![disk], "disk sda (seri…"),
        (29, vec![], "no critical fi…"),
    ];
    for (rows, findings, expected) in cases {
        let screen = Screen { rows, is_utf8: false, ..SCREEN };
        assert_eq!(read(&summary(head, &findings, &[]), &screen), expected, "{rows}");
    }
    let of_part = finding("memory.ecc.uncorrectable", &"\u{1f980}".repeat(20), "x");
    let screen = Screen { rows: 29, is_utf8: false, ..SCREEN };
    assert_eq!(read(&summary(head, &[of_part], &[]), &screen), "serial CZJ1234567");
    let failed = Summary::new(head, Some("install failed: NO_REPORT"), &[], &[], 0);
    let failed = failed.because(&["the hardware could not be read".repeat(5)]);
    assert_eq!(read(&failed, &Screen { rows: 33, ..screen }), "install failed: NO_REPORT");
}

#[test]
fn finding_of_a_fault_names_the_suspects_and_the_fault_is_named_once() {
    let fault: Fault = serde_json::from_value(json!({
        "class": "memory.dimm.uncorrectable",
        "severity": "critical",
        "suspects": [
            {"part": "DIMM A1", "label": "P1-A1", "fru": {"serial": "1234"}, "certainty_percent": 60},
            {"part": "DIMM A2", "certainty_percent": 20},
        ],
        "evidence": [
            {"source": "EDAC", "finding": "memory.ecc.uncorrectable", "locator": "A1", "observed": "5 errors"},
            {"source": "log", "finding": "memory.ecc.correctable", "locator": "A1", "observed": "9 errors"},
        ],
        "advice": "Replace it.",
    }))
    .unwrap();
    let findings = [
        finding("memory.ecc.uncorrectable", "A1", "5 errors"),
        finding("memory.ecc.correctable", "A1", "9 errors"),
        finding("memory.ecc.correctable", "B1", "7 errors"),
    ];
    let text = read(&summary("m", &findings, &[fault]), &LARGE);
    let first: Vec<&str> = text.lines().filter(|line| line.contains(": ")).collect();
    let expected = [
        "critical memory.ecc.uncorrectable: DIMM A1 in P1-A1, serial 1234, or 1 other",
        "warning memory.ecc.correctable: memory B1",
    ];
    assert_eq!(first, expected);
}

#[test]
fn long_model_does_not_cost_the_worst_fault() {
    let head = "Hewlett Packard Enterprise ProLiant DL380 Gen10 Plus\nserial CZJ1234567";
    let fatal = finding("pci.aer.fatal", "slot 1 (0000:00:02.0)", "1 fatal error");
    let text = read(&summary(head, &[fatal], &[]), &Screen { rows: 22, ..SCREEN });
    assert_eq!(text, "serial CZJ1234567\ncritical pci.aer.fatal: pci slot 1 (0000:00:02.0)");
}

#[test]
fn equal_findings_of_several_faults_name_their_own_places() {
    let fault = |disk: &str| -> Fault {
        let evidence = json!({
            "source": "SMART", "finding": "disk.health.failing", "locator": disk, "observed": "it says so",
        });
        let suspect = json!({"part": format!("disk {disk}"), "certainty_percent": 90});
        let fault = json!({
            "class": "disk.failing", "severity": "critical", "suspects": [suspect], "evidence": [evidence],
            "advice": "Replace it.",
        });
        serde_json::from_value(fault).unwrap()
    };
    let findings = ["sda", "sdb"].map(|disk| finding("disk.health.failing", disk, "it says so"));
    let text = read(&summary("m", &findings, &[fault("sda"), fault("sdb")]), &LARGE);
    for disk in ["sda", "sdb"] {
        assert!(text.contains(&format!("critical disk.health.failing: disk {disk}")), "{text}");
    }
    let of_second = read(&summary("m", &findings[1..], &[fault("sda"), fault("sdb")]), &LARGE);
    assert!(!of_second.contains("sda"), "{of_second}");
}

#[test]
fn healthy_machine_says_so_and_what_was_unreadable() {
    let notice = finding("nic.no_carrier", "eno1", "no link");
    assert!(!is_fault(&notice));
    let healthy = Summary::new("m", None, &[], &[], 0);
    assert_eq!(read(&healthy, &SCREEN), "m\nno critical finding, no warning");
    let unread = Summary::new("m", None, &[], &[], 2);
    let expected =
        "m\nno critical finding, no warning\n2 values were unreadable; faults may be missed";
    assert_eq!(read(&unread, &SCREEN), expected);
}

#[test]
fn hostile_values_are_cut_and_cleaned() {
    let hostile = "\u{1b}[2J\u{202e}x\r\ny\u{0}".repeat(5000);
    let findings = [finding("memory.ecc.uncorrectable", &hostile, &hostile)];
    let product = serde_json::from_value(json!({"vendor": hostile, "serial": hostile})).unwrap();
    let text = read(&summary(&machine_name(Some(&product), &hostile), &findings, &[]), &LARGE);
    assert!(crate::clean::is_clean(&text.replace('\n', "")), "{text:?}");
    assert!(text.contains("\ncritical memory.ecc.uncorrectable: memory  [2Jx"), "{text:?}");
    assert!(text.lines().count() == 4 && text.len() < 500, "{text:?}");
}

#[test]
fn small_screen_shows_the_worst_fault_rather_than_the_machine() {
    let machine =
        "QEMU Standard PC (Q35 + ICH9, 2009)\nnode uuid-4c4c4544-0058-4a10-8034-b7c04f4b5a33";
    let [memory, disk] = two();
    let findings =
        [finding("disk.health.failing", &"long name ".repeat(9), "failing"), memory, disk];
    let shown = |n: usize| {
        let findings: Vec<&Finding> = findings.iter().skip(n).collect();
        read(&Summary::new(machine, Some("install blocked"), &findings, &[], 0), &SCREEN)
    };
    let long = shown(0);
    let start = "install blocked\ncritical disk.health.failing: disk long name ";
    assert!(long.starts_with(start), "{long}");
    assert!(long.ends_with("\nand 2 more"), "{long}");
    let expected = "node uuid-4c4c4544-0058-4a10-8034-b7c04f4b5a33\ninstall blocked\n\
                    critical memory.ecc.uncorrectable: memory A1\nand 1 more";
    assert_eq!(shown(1), expected);
}
