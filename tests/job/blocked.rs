//! Installs that a fault of the machine prevents: what the VIM and the console learn, and how the node goes on.

use std::time::{Duration, Instant};

use probes::findings::{Finding, row};
use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

#[path = "../qr_reader.rs"]
mod qr_reader;

use super::image;
use super::install::{Job, with};
use super::machine::Machine;
use super::mock::{Mock, Reply, assert_has, assert_says, instruction_to_install};

/// A machine that asks again after a refusal, and a VIM that answers the report of each number with an install, and
/// everything after an install with stop.
fn job(keys: impl Fn(usize) -> Value + Send + Sync + 'static) -> Job {
    job_that_expects(keys, |_| Value::Null)
}

/// The same, with what the machine must be.
fn job_that_expects(
    keys: impl Fn(usize) -> Value + Send + Sync + 'static,
    expected: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Job {
    let report = move |number| {
        let mut instruction = instruction_to_install(&with(keys(number)));
        if !expected(number).is_null() {
            instruction["expect"] = expected(number);
        }
        if number < 10 { Reply::json(200, &instruction) } else { Reply::action("stop") }
    };
    let mock = Mock::of(report, |_| Reply::action("stop"), |_| Reply::status(204));
    let mut job = Job::at(mock);
    job.machine.settings.on_refusal = OnRefusal::Retry;
    job
}

fn finding(code: &str) -> Finding {
    row(code).unwrap().finding(Some("DIMM A1".into()), "3 errors")
}

/// Runs the job on a machine whose findings depend on how often its hardware has been read.
fn run(machine: &mut Machine, findings: impl Fn(u32) -> Vec<Finding>) {
    machine.run_changing(|n, collected| collected.findings = findings(n));
}

/// Runs the job on a machine whose firmware is updated before its hardware is read for the `n_old + 1`st time.
fn run_with_firmware_update(machine: &mut Machine, n_old: u32) {
    machine.run_changing(|n, collected| {
        let version = if n > n_old { "2.19.1" } else { "2.18.0" };
        collected.report = json!({"bios": {"version": version}}).to_string().into_bytes();
    });
}

/// Checks that the install was blocked with these words until the hardware was read for the fourth time, and returns the
/// first result. The installer of these machines writes nothing; that it ran is the point.
fn blocked_until_read_again(job: &Job, words: &str) -> Value {
    assert_eq!(job.mock.codes(), ["FINDINGS", "INSTALLER_FAILED"]);
    let result = job.mock.bodies("/result").remove(0);
    assert_says(&result["message"], &[words]);
    assert_eq!(result["disk_state"], "untouched");
    assert_eq!(job.machine.n_collected, 4);
    result
}

#[test]
fn blocked_node_reads_its_hardware_again_and_installs_once_the_fault_is_gone() {
    let mut job = job(|_| json!({}));
    let fault = |n| if n < 4 { vec![finding("memory.ecc.uncorrectable")] } else { vec![] };
    run(&mut job.machine, fault);
    blocked_until_read_again(&job, "DIMM A1: 3 errors");
    assert_eq!(job.mock.requests("/v1/reports").len(), 4);
    let slept = job.machine.slept();
    assert!(slept.iter().take(3).all(|wait| *wait <= Duration::from_mins(1)), "{slept:?}");
}

#[test]
fn node_that_is_not_as_expected_installs_once_it_is() {
    let mut job = job_that_expects(|_| json!({}), |_| json!({"bios": {"version": "2.19.*"}}));
    run_with_firmware_update(&mut job.machine, 3);
    let words = "BIOS: version is 2.18.0, expected 2.19.*";
    let result = blocked_until_read_again(&job, words);
    let evidence = "version is 2.18.0, expected 2.19.*";
    let finding = json!({"code": "expectation.mismatch", "evidence": evidence});
    assert_has(&result["findings"][0], &finding);
}

#[test]
fn port_at_another_switch_port_blocks_until_it_is_recabled() {
    let expected = json!({"interface": {"name": "eno1", "wired_to": "leaf-17 port 12"}});
    let mut job = job_that_expects(|_| json!({}), move |_| expected.clone());
    let listener = job.machine.settings.listener.clone();
    job.machine.run_changing(|n, collected| {
        let mut port = json!({"name": "eno1", "kind": "physical"});
        // The first report does not wait for neighbours.
        if listener.is_required() {
            let id = if n < 4 { "13" } else { "12" };
            port["lldp"] = json!([{"system_name": "leaf-17", "port_id": id}]);
        }
        collected.report = json!({"network": {"interfaces": [port]}}).to_string().into_bytes();
    });
    let text = "port eno1: wired to is leaf-17 port 13, expected leaf-17 port 12";
    blocked_until_read_again(&job, text);
}

#[test]
fn expectations_of_one_instruction_do_not_block_the_next() {
    let bios = json!({"bios": {"version": "2.19.*"}});
    let expected = move |number| if number == 0 { bios.clone() } else { Value::Null };
    let mut job = job_that_expects(|_| json!({}), expected);
    run_with_firmware_update(&mut job.machine, u32::MAX);
    assert_eq!(job.mock.codes(), ["FINDINGS", "INSTALLER_FAILED"]);
    let last = &job.mock.bodies("/result")[1];
    assert_eq!(last["findings"], json!([]), "{last:#}");
}

#[test]
fn blocked_node_goes_on_when_the_vim_allows_it() {
    let mut job = job(|number| match number {
        2 => json!({"block_except": ["memory.ecc.*@DIMM A1"]}),
        _ => json!({}),
    });
    run(&mut job.machine, |_| vec![finding("memory.ecc.uncorrectable")]);
    assert_eq!(job.mock.codes(), ["FINDINGS", "INSTALLER_FAILED"]);
    assert_eq!(job.machine.n_collected, 3);
}

#[test]
fn configuration_of_the_node_blocks_by_code_and_the_installer_does_not_run() {
    let Job { mock, mut machine } =
        job(|number| if number < 5 { json!({}) } else { json!({"ignition": {}}) });
    machine.settings.site.blocking.also = vec!["memory.ecc.correctable".into()];
    machine.settings.vim.deadline = Some(Duration::from_secs(30));
    run(&mut machine, |_| vec![finding("memory.ecc.correctable")]);
    assert_eq!(mock.codes()[0], "FINDINGS");
    assert!(machine.read("args").is_empty() && machine.is_untouched("sda"));
}

/// Gives the machine a console, and returns its file.
fn console(machine: &mut Machine) -> std::path::PathBuf {
    let screen = machine.root.join("console");
    std::fs::write(&screen, "").unwrap();
    machine.settings.screen = Some(screen.clone());
    screen
}

/// Lets the machine show QR codes on its console, and returns its file.
fn show_qr(machine: &mut Machine) -> std::path::PathBuf {
    machine.settings.shows_qr = true;
    machine.collected.machine = Some("Dell Inc. R650\nserial S1".to_owned());
    console(machine)
}

/// What the console shows as soon as `is_whole` accepts it, or after 20 s. Each wait of the test takes no time, and the console
/// is written meanwhile.
fn shown(screen: &std::path::Path, is_whole: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let shown = std::fs::read_to_string(screen).unwrap();
        if is_whole(&shown) || start.elapsed() > Duration::from_secs(20) {
            return shown;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn console_of_a_blocked_node_names_part_and_place_in_large_letters() {
    let mut job = job(|_| json!({}));
    let screen = console(&mut job.machine);
    let fault = |n| if n < 3 { vec![finding("memory.ecc.uncorrectable")] } else { vec![] };
    run(&mut job.machine, fault);
    let shown = shown(&screen, |shown| shown.contains("node mac-02"));
    // The first row of M, E, M, O, R, Y.
    assert!(shown.contains("#   # ##### #   #  ###  ####  #   #"), "{shown}");
    assert!(shown.contains("DIMM A1: 3 errors (memory.ecc.uncorrectable)"), "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
}

#[test]
fn blocked_node_shows_the_reason_as_qr_code_in_every_wait() {
    let mut job = job(|_| json!({}));
    let screen = show_qr(&mut job.machine);
    run(&mut job.machine, |n| match n {
        ..5 => vec![finding("memory.dimm.mismatch"), finding("memory.ecc.uncorrectable")],
        _ => vec![],
    });
    let codes = qr_reader::read(&shown(&screen, |shown| qr_reader::read(shown).len() >= 4));
    assert_eq!(codes.len(), 4);
    for code in codes {
        let expected = "Dell Inc. R650\nserial S1\ninstall blocked\ncritical memory.ecc.uncorrectable: memory DIMM A1";
        assert!(code.starts_with(expected), "{code}");
    }
}

#[test]
fn failed_install_shows_its_code_and_message_as_qr_code_at_the_end() {
    let mut job = job(|_| json!({})).script("exit 1");
    job.machine.settings.on_refusal = OnRefusal::Stop;
    let screen = show_qr(&mut job.machine);
    // With it, a first line of over 50 characters would not fit the code.
    job.machine.collected.machine = Some("Dell Inc. PowerEdge R650\nserial S1".to_owned());
    assert_eq!(job.machine.run().exit_status, ExitStatus::Untouched);
    let codes = qr_reader::read(&std::fs::read_to_string(&screen).unwrap());
    let [code] = &codes[..] else { panic!("{codes:?}") };
    let expected =
        "Dell Inc. PowerEdge R650\nserial S1\ninstall failed, nothing written: INSTALLER_FAILED\n";
    let message = code.strip_prefix(expected).unwrap_or_else(|| panic!("{code}"));
    assert!(message.contains("coreos-installer"), "{message}");
}

#[test]
fn installed_disk_is_not_shown_as_a_failure_although_the_result_is_refused() {
    let install = |_| Reply::install(&with(json!({})));
    let mock = Mock::of(install, |_| Reply::status(204), |_| Reply::status(422));
    let mut machine = Job::at(mock).writes(&image::plain()).machine;
    let screen = show_qr(&mut machine);
    assert_eq!(machine.run().exit_status, ExitStatus::NotReported);
    assert_eq!(std::fs::read_to_string(&screen).unwrap(), "");
}
