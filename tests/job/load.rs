//! The load that a VIM allows while the node waits, by the program itself: it starts itself again for each CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::crash::start;
use super::machine::{IGNITION, children};
use super::mock::{Mock, Reply, assert_says, instruction, instruction_to_install};
use super::skipped::skipped;
use super::until::{LIMIT, until};

/// An instruction to wait, with a load.
fn wait(load_s: u64, retry_after_s: u64) -> Value {
    let mut wait = instruction("wait");
    (wait["load_s"], wait["retry_after_s"]) = (json!(load_s), json!(retry_after_s));
    wait
}

/// An install that is refused.
fn install() -> Value {
    let (ignition, disk) = (json!({"inline": IGNITION}), json!({"device": "/dev/none"}));
    instruction_to_install(&json!({"ignition": ignition, "disk": disk}))
}

/// The same, after which the job ends.
fn last_install() -> Value {
    let mut install = install();
    install["on_refusal"] = json!("stop");
    install
}

fn has_two_cpus() -> bool {
    std::thread::available_parallelism().unwrap().get() >= 2
}

/// A response with status 202: no instruction yet.
fn not_yet() -> Value {
    json!({"node_id": "mac-02", "retry_after_s": 1})
}

fn stop() -> Value {
    instruction("stop")
}

/// An instruction with this action for a second.
fn for_a_second(action: &str) -> Value {
    let mut instruction = instruction(action);
    instruction["retry_after_s"] = json!(1);
    instruction
}

fn reply(response: &Value) -> Reply {
    Reply::json(if response["action"].is_null() { 202 } else { 200 }, response)
}

/// A VIM with these responses to each report and to each request for the instruction.
fn vim(
    report: impl Fn(usize) -> Value + Send + Sync + 'static,
    instruction: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Mock {
    Mock::of(move |n| reply(&report(n)), move |n| reply(&instruction(n)), |_| Reply::status(204))
}

/// Runs the program to its end, which must come with no disk touched, after this number of loads and of reports. Returns what
/// it logged, and the message of each load.
#[track_caller]
fn ends_after(mock: &Mock, n_loads: usize, n_reports: usize, name: &str) -> (String, Vec<String>) {
    let begin = Instant::now();
    // Processes of a load that goes on would keep standard error open.
    let output = start(mock).wait_with_output().unwrap();
    assert!(begin.elapsed() < LIMIT, "it ran for {} s", begin.elapsed().as_secs());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{name}: {log}");
    let mut messages = mock.messages();
    messages.retain(|text| text.starts_with("computed on "));
    assert_eq!(messages.len(), n_loads, "{name}: {messages:#?}\n{log}");
    assert_eq!(mock.requests("/v1/reports").len(), n_reports, "{name}: {log}");
    (log, messages)
}

#[test]
fn load_that_the_vim_allows_is_followed_by_a_report_and_runs_once() {
    // The VIM still allows the load after the second report.
    let mock = vim(
        |n| wait(2, if n == 0 { 60 } else { 1 }),
        |n| if n == 0 { wait(2, 60) } else { stop() },
    );
    let (_, computed) = ends_after(&mock, 1, 2, "a load");
    let n_mib = computed[0].split(" MiB").next().unwrap().rsplit(' ').next().unwrap();
    assert!(n_mib.parse::<u64>().unwrap() > 0, "{computed:?}");
}

/// Waits for the processes of a load on at least two CPUs, and ends one as a CPU with wrong results can end it. Returns the
/// number of its CPU.
fn crash_one(agent: u32) -> String {
    let cpu_of = |id: &str| {
        let environment = std::fs::read_to_string(format!("/proc/{id}/environ")).ok()?;
        let task = environment.split("RUN_COREOS_INSTALLER_LOAD=").nth(1)?;
        let task: Value = serde_json::from_str(task.split('\0').next()?).ok()?;
        Some((id.to_owned(), task["cpu"].to_string()))
    };
    until("a load", || {
        let all = children(agent);
        let of_load: Vec<String> =
            all.split_whitespace().map(|id| children(id.parse().unwrap())).collect();
        let ids = of_load.iter().flat_map(|ids| ids.split_whitespace());
        let processes: Vec<_> = ids.filter_map(cpu_of).collect();
        let [_, .., (id, cpu)] = &processes[..] else { return None };
        kill(Pid::from_raw(id.parse().unwrap()), Signal::SIGILL).unwrap();
        Some(cpu.clone())
    })
}

#[test]
fn faulty_cpu_of_a_load_is_in_every_later_report_and_in_the_result() {
    if !has_two_cpus() {
        return skipped("it needs two CPUs");
    }
    let report = |n| match n {
        0 => wait(3, 60),
        1 => instruction("reinspect"),
        _ => last_install(),
    };
    let mock = vim(report, |_| wait(3, 60));
    let agent = start(&mock);
    let cpu = format!("logical CPU {}", crash_one(agent.id()));
    let output = agent.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let of_cpu = |document: &Value| {
        let findings = document["findings"].as_array().unwrap();
        let named = findings.iter().filter(|finding| finding["code"] == "cpu.wrong_result");
        named.map(|finding| finding["locator"].clone()).collect::<Vec<_>>()
    };
    let reports = mock.bodies("/v1/reports");
    let named: Vec<_> = reports.iter().map(of_cpu).collect();
    assert_eq!(named, [vec![], vec![json!(cpu)], vec![json!(cpu)]], "{log}");
    let faults = reports[1]["faults"].to_string();
    assert!(faults.contains("cpu.wrong_result"), "{faults}");
    assert_eq!(of_cpu(&mock.requests("/result")[0].json()), [json!(cpu)], "{log}");
}

#[test]
fn load_that_ends_early_with_a_fault_is_followed_by_a_report() {
    if !has_two_cpus() {
        return skipped("it needs two CPUs");
    }
    for withdrawal in [for_a_second("wait"), not_yet()] {
        assert_report_follows_a_fault(wait(3600, 1), wait(3600, 1), withdrawal);
    }
}

#[test]
fn instruction_that_was_refused_before_reports_the_fault_of_the_load_that_it_ends() {
    if !has_two_cpus() {
        return skipped("it needs two CPUs");
    }
    assert_report_follows_a_fault(install(), wait(3600, 1), install());
}

/// The VIM answers the first report with `first`, then allows a load with `allowed` until a process of the load has
/// crashed, then sends `withdrawal`.
fn assert_report_follows_a_fault(first: Value, allowed: Value, withdrawal: Value) {
    let is_crashed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_crashed);
    let n_withdrawals = AtomicUsize::new(0);
    let name = withdrawal.to_string();
    let mock = vim(
        move |n| if n == 0 { first.clone() } else { stop() },
        move |_| {
            if !seen.load(Ordering::SeqCst) {
                return allowed.clone();
            }
            // A load that goes on ends with the program.
            let n = n_withdrawals.fetch_add(1, Ordering::SeqCst);
            if n == 0 { withdrawal.clone() } else { stop() }
        },
    );
    let agent = start(&mock);
    crash_one(agent.id());
    is_crashed.store(true, Ordering::SeqCst);
    let output = agent.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let reports = mock.bodies("/v1/reports");
    assert_eq!(reports.len(), 2, "{name}: {log}");
    let findings = reports[1]["findings"].to_string();
    assert!(findings.contains("cpu.wrong_result"), "{name}: {log}");
}

#[test]
fn install_or_response_without_an_instruction_ends_a_load_and_what_was_tested_is_posted() {
    for last in [last_install(), not_yet()] {
        let name = last.to_string();
        let mock = vim(
            |_| wait(3600, 1),
            move |n| match n {
                ..2 => wait(3600, 1),
                2 => last.clone(),
                _ => stop(),
            },
        );
        ends_after(&mock, 1, 1, &name);
    }
}

#[test]
fn load_runs_again_once_the_vim_has_withdrawn_it_and_allows_it_again() {
    for withdrawal in [for_a_second("wait"), not_yet()] {
        let name = withdrawal.to_string();
        let mock = vim(
            |n| if n < 2 { wait(1, 1) } else { stop() },
            move |n| match n {
                0 | 2 | 3 => wait(1, 5),
                1 => withdrawal.clone(),
                _ => stop(),
            },
        );
        ends_after(&mock, 2, 3, &name);
    }
}

#[test]
fn acceptance_of_a_report_does_not_repeat_a_load() {
    for acceptance in [not_yet(), for_a_second("wait")] {
        let name = acceptance.to_string();
        let mock = vim(move |_| acceptance.clone(), |n| if n < 4 { wait(1, 2) } else { stop() });
        ends_after(&mock, 1, 2, &name);
    }
}

#[test]
fn reinspection_ends_a_load_and_its_report_permits_another() {
    let instruction = |n| match n {
        0 => wait(3600, 1),
        1 => for_a_second("reinspect"),
        _ => wait(1, 60),
    };
    let mock = vim(|n| if n < 2 { not_yet() } else { stop() }, instruction);
    let (log, _) = ends_after(&mock, 2, 3, "reinspect");
    let at = |text: &str, n: usize| log.match_indices(text).nth(n).map(|(at, _)| at);
    assert!(at("computed on ", 0) < at("reading the machine's hardware", 1), "{log}");
}

#[test]
fn load_with_another_action_or_without_end_is_refused() {
    for (action, load_s) in [("stop", 60), ("wait", 0), ("wait", 90_000)] {
        let mut text = instruction(action);
        text["load_s"] = json!(load_s);
        let refusal = run_coreos_installer::api::parse_instruction(text.to_string().as_bytes());
        let words = "expected 1 to 86400 with the action wait";
        assert_says(&json!(refusal.unwrap_err().message), &[words]);
    }
}
