//! Installs that a fault of the machine prevents: what the VIM and the console learn, and how the node goes on.

use std::time::{Duration, Instant};

use probes::findings::{Finding, row};
use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

#[path = "../qr_reader.rs"]
mod qr_reader;

use super::image;
use super::install::inline;
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply};

/// A VIM that answers the report of each number with an install, and everything after an install with stop.
fn vim(install: impl Fn(usize) -> Value + Send + Sync + 'static) -> Mock {
    vim_that_expects(install, |_| None)
}

/// The same, with what the machine must be.
fn vim_that_expects(
    install: impl Fn(usize) -> Value + Send + Sync + 'static,
    expected: impl Fn(usize) -> Option<Value> + Send + Sync + 'static,
) -> Mock {
    let n_reports = std::sync::atomic::AtomicUsize::new(0);
    Mock::start(move |request, _| {
        let number = if request.path == "/v1/reports" {
            n_reports.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
        } else if request.path.ends_with("/instruction") {
            usize::MAX
        } else {
            return Reply::status(204);
        };
        let stop = json!({"api_version": "1", "request_id": "end", "action": "stop"});
        let mut install = json!({
            "api_version": "1", "request_id": "r1", "action": "install", "install": install(number),
        });
        if let Some(expected) = expected(number) {
            install["expect"] = expected;
        }
        Reply::json(200, if number < 10 { &install } else { &stop })
    })
}

fn finding(code: &str) -> Finding {
    row(code).unwrap().finding(Some("DIMM A1".into()), "3 errors")
}

/// Runs the job on a machine whose findings depend on how often its hardware has been read.
fn run(machine: &mut Machine, findings: impl Fn(u32) -> Vec<Finding>) {
    machine.settings.on_refusal = OnRefusal::Retry;
    let (mut collected, mut n) = (machine.collected.clone(), 0);
    let mut collect = || {
        n += 1;
        collected.findings = findings(n);
        Ok(collected.clone())
    };
    machine.run_with(&mut collect);
    machine.n_collected = n;
}

/// Runs the job on a machine whose firmware is updated before its hardware is read for the `n_old + 1`st time.
fn run_with_firmware_update(machine: &mut Machine, n_old: u32) {
    machine.settings.on_refusal = OnRefusal::Retry;
    let (mut collected, mut n) = (machine.collected.clone(), 0);
    let mut collect = || {
        n += 1;
        let version = if n > n_old { "2.19.1" } else { "2.18.0" };
        collected.report = json!({"bios": {"version": version}}).to_string().into_bytes();
        Ok(collected.clone())
    };
    machine.run_with(&mut collect);
    machine.n_collected = n;
}

/// The codes of all results, in order.
fn codes(mock: &Mock) -> Vec<String> {
    let results = mock.requests("/result");
    results.iter().map(|result| result.json()["code"].as_str().unwrap().to_owned()).collect()
}

fn plain() -> Value {
    json!({"ignition": inline()})
}

#[test]
fn blocked_node_reads_its_hardware_again_and_installs_once_the_fault_is_gone() {
    let mock = vim(|_| plain());
    let mut machine = Machine::new(&mock.url);
    run(&mut machine, |n| if n < 4 { vec![finding("memory.ecc.uncorrectable")] } else { vec![] });
    // The installer of this machine writes nothing; that it ran is the point.
    assert_eq!(codes(&mock), ["FINDINGS", "INSTALLER_FAILED"]);
    let result = mock.requests("/result")[0].json();
    assert!(result["message"].as_str().unwrap().contains("DIMM A1: 3 errors"), "{result:#}");
    assert_eq!(result["disk_state"], "untouched");
    assert_eq!((machine.n_collected, mock.requests("/v1/reports").len()), (4, 4));
    let slept = machine.slept();
    assert!(slept.iter().take(3).all(|wait| *wait <= Duration::from_mins(1)), "{slept:?}");
}

#[test]
fn node_that_is_not_as_expected_installs_once_it_is() {
    let mock = vim_that_expects(|_| plain(), |_| Some(json!({"bios": {"version": "2.19.*"}})));
    let mut machine = Machine::new(&mock.url);
    run_with_firmware_update(&mut machine, 3);
    assert_eq!(codes(&mock), ["FINDINGS", "INSTALLER_FAILED"]);
    let result = mock.requests("/result")[0].json();
    let text = result["message"].as_str().unwrap();
    assert!(text.contains("BIOS: version is 2.18.0, expected 2.19.*"), "{result:#}");
    let finding = &result["findings"][0];
    assert_eq!(finding["code"], "expectation.mismatch");
    assert_eq!(finding["evidence"], "version is 2.18.0, expected 2.19.*");
    assert_eq!(result["disk_state"], "untouched");
    assert_eq!(machine.n_collected, 4);
}

#[test]
fn port_at_another_switch_port_blocks_until_it_is_recabled() {
    let expected = json!({"interface": {"name": "eno1", "wired_to": "leaf-17 port 12"}});
    let mock = vim_that_expects(|_| plain(), move |_| Some(expected.clone()));
    let mut machine = Machine::new(&mock.url);
    machine.settings.on_refusal = OnRefusal::Retry;
    let (mut collected, mut n) = (machine.collected.clone(), 0);
    let listener = machine.settings.listener.clone();
    let mut collect = || {
        n += 1;
        let mut port = json!({"name": "eno1", "kind": "physical"});
        // The first report does not wait for neighbours.
        if listener.is_required() {
            let id = if n < 4 { "13" } else { "12" };
            port["lldp"] = json!([{"system_name": "leaf-17", "port_id": id}]);
        }
        collected.report = json!({"network": {"interfaces": [port]}}).to_string().into_bytes();
        Ok(collected.clone())
    };
    machine.run_with(&mut collect);
    assert_eq!(codes(&mock), ["FINDINGS", "INSTALLER_FAILED"]);
    let result = mock.requests("/result")[0].json();
    let text = "port eno1: wired to is leaf-17 port 13, expected leaf-17 port 12";
    assert!(result["message"].as_str().unwrap().contains(text), "{result:#}");
    assert_eq!(result["disk_state"], "untouched");
    assert_eq!(n, 4);
}

#[test]
fn expectations_of_one_instruction_do_not_block_the_next() {
    let expected = |number| (number == 0).then(|| json!({"bios": {"version": "2.19.*"}}));
    let mock = vim_that_expects(|_| plain(), expected);
    let mut machine = Machine::new(&mock.url);
    run_with_firmware_update(&mut machine, u32::MAX);
    assert_eq!(codes(&mock), ["FINDINGS", "INSTALLER_FAILED"]);
    let last = mock.requests("/result")[1].json();
    assert_eq!(last["findings"], json!([]), "{last:#}");
}

#[test]
fn blocked_node_goes_on_when_the_vim_allows_it() {
    let mock = vim(|number| {
        let mut install = plain();
        if number == 2 {
            install["block_except"] = json!(["memory.ecc.*@DIMM A1"]);
        }
        install
    });
    let mut machine = Machine::new(&mock.url);
    run(&mut machine, |_| vec![finding("memory.ecc.uncorrectable")]);
    assert_eq!(codes(&mock), ["FINDINGS", "INSTALLER_FAILED"]);
    assert_eq!(machine.n_collected, 3);
}

#[test]
fn configuration_of_the_node_blocks_by_code_and_the_installer_does_not_run() {
    let mock = vim(|number| if number < 5 { plain() } else { json!({"ignition": {}}) });
    let mut machine = Machine::new(&mock.url);
    machine.settings.site.blocking.also = vec!["memory.ecc.correctable".into()];
    machine.settings.vim.deadline = Some(Duration::from_secs(30));
    run(&mut machine, |_| vec![finding("memory.ecc.correctable")]);
    assert_eq!(codes(&mock)[0], "FINDINGS");
    assert!(machine.read("args").is_empty() && machine.is_untouched("sda"));
}

#[test]
fn misspelt_code_of_an_instruction_is_refused_and_not_ignored() {
    let mock = vim(|_| {
        let mut install = plain();
        install["block_also"] = json!(["memory.ecc.corectable"]);
        install
    });
    let mut machine = Machine::new(&mock.url);
    run(&mut machine, |_| vec![]);
    let result = mock.requests("/result")[0].json();
    assert_eq!(result["code"], "INSTRUCTION_INVALID");
    assert!(result["message"].as_str().unwrap().contains("nearest is memory.ecc.correctable"));
}

#[test]
fn console_of_a_blocked_node_names_part_and_place_in_large_letters() {
    let mock = vim(|_| plain());
    let mut machine = Machine::new(&mock.url);
    let screen = machine.root.join("console");
    std::fs::write(&screen, "").unwrap();
    machine.settings.screen = Some(screen.clone());
    run(&mut machine, |n| if n < 3 { vec![finding("memory.ecc.uncorrectable")] } else { vec![] });
    let start = Instant::now();
    let shown = loop {
        let shown = std::fs::read_to_string(&screen).unwrap();
        if shown.contains("node mac-02") || start.elapsed() > Duration::from_secs(20) {
            break shown;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // The first row of M, E, M, O, R, Y.
    assert!(shown.contains("#   # ##### #   #  ###  ####  #   #"), "{shown}");
    assert!(shown.contains("DIMM A1: 3 errors (memory.ecc.uncorrectable)"), "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
}

#[test]
fn blocked_node_shows_the_reason_as_qr_code_in_every_wait() {
    let mock = vim(|_| plain());
    let mut machine = Machine::new(&mock.url);
    let screen = show_qr(&mut machine);
    run(&mut machine, |n| match n {
        ..5 => vec![finding("memory.dimm.mismatch"), finding("memory.ecc.uncorrectable")],
        _ => vec![],
    });
    // Each wait of the test takes no time, and the console is written meanwhile.
    let start = Instant::now();
    let codes = loop {
        let codes = qr_reader::read(&std::fs::read_to_string(&screen).unwrap());
        if codes.len() >= 4 || start.elapsed() > Duration::from_secs(20) {
            break codes;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(codes.len(), 4);
    for code in codes {
        let expected = "Dell Inc. R650\nserial S1\ninstall blocked\ncritical memory.ecc.uncorrectable: memory DIMM A1";
        assert!(code.starts_with(expected), "{code}");
    }
}

#[test]
fn failed_install_shows_its_code_and_message_as_qr_code_at_the_end() {
    let mock = vim(|_| plain());
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", "exit 1");
    let screen = show_qr(&mut machine);
    // With it, a first line of over 50 characters would not fit the code.
    machine.collected.machine = Some("Dell Inc. PowerEdge R650\nserial S1".to_owned());
    machine.run();
    let shown = std::fs::read_to_string(&screen).unwrap();
    let codes = qr_reader::read(&shown);
    assert_eq!(codes.len(), 1, "{shown}");
    let expected =
        "Dell Inc. PowerEdge R650\nserial S1\ninstall failed, nothing written: INSTALLER_FAILED\n";
    assert!(codes[0].starts_with(expected), "{}", codes[0]);
    let (_, message) = codes[0].split_at(expected.len());
    assert!(message.contains("coreos-installer"), "{message}");
}

#[test]
fn installed_disk_is_not_shown_as_a_failure_although_the_result_is_refused() {
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => Reply::json(
            200,
            &json!({"api_version": "1", "request_id": "r1", "action": "install", "install": plain()}),
        ),
        path if path.ends_with("/result") => Reply::status(422),
        _ => Reply::status(204),
    });
    let mut machine = Machine::new(&mock.url);
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    std::fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "write_image");
    let screen = show_qr(&mut machine);
    assert_eq!(machine.run().exit_status, ExitStatus::NotReported);
    assert_eq!(std::fs::read_to_string(&screen).unwrap(), "");
}

/// Lets the machine show QR codes, and returns the file that is its console.
fn show_qr(machine: &mut Machine) -> std::path::PathBuf {
    let screen = machine.root.join("console");
    std::fs::write(&screen, "").unwrap();
    machine.settings.screen = Some(screen.clone());
    machine.settings.shows_qr = true;
    machine.collected.machine = Some("Dell Inc. R650\nserial S1".to_owned());
    screen
}
