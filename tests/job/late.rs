//! Disks and links that appear after the report was posted: it waits for neither, and the VIM gets another one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::job::Listener;
use serde_json::json;

use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request};

fn install() -> Reply {
    Reply::install(&json!({"ignition": {"inline": IGNITION}, "disk": {"device": "/dev/none"}}))
}

/// A disk in sysfs, which udev does not know, so that it has just appeared whenever the agent looks first.
fn plug(root: &Path, name: &str) {
    let device = root.join("sys/devices").join(name);
    std::fs::create_dir_all(&device).unwrap();
    std::fs::create_dir_all(root.join("sys/block")).unwrap();
    std::fs::write(device.join("dev"), "8:0\n").unwrap();
    std::fs::write(device.join("size"), "131072\n").unwrap();
    symlink(format!("../devices/{name}"), root.join("sys/block").join(name)).unwrap();
}

/// A VIM that does `at_report` with the machine's directory at each report, and answers.
fn vim(
    at_report: impl Fn(&Path, usize) + Send + Sync + 'static,
    answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
) -> (Mock, Machine) {
    let root: Arc<Mutex<PathBuf>> = Arc::default();
    let of_vim = Arc::clone(&root);
    let mock = Mock::vim(move |request, n| {
        if request.path == "/v1/reports" {
            at_report(&of_vim.lock().unwrap(), n);
        }
        answer(request, n)
    });
    let machine = Machine::new(&mock.url);
    root.lock().unwrap().clone_from(&machine.root);
    plug(&machine.root, "sda");
    (mock, machine)
}

fn order(mock: &Mock) -> Vec<String> {
    mock.paths().into_iter().filter(|path| !path.ends_with("/result")).collect()
}

/// Accepts each report, and ends the job at the first request for an instruction.
fn accepts(request: &Request, _: usize) -> Reply {
    match request.path.as_str() {
        "/v1/reports" => Reply::json(202, &json!({"node_id": "node-7", "retry_after_s": 60})),
        _ => Reply::action("stop"),
    }
}

/// Plugs in a disk at the first report.
fn plug_once(root: &Path, n: usize) {
    if n == 0 {
        plug(root, "sdb");
    }
}

#[test]
fn report_does_not_wait_for_disks_and_is_posted_again_when_one_appears() {
    let (mock, mut machine) = vim(plug_once, accepts);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let instruction = "/v1/nodes/node-7/instruction";
    assert_eq!(order(&mock), ["/v1/reports", "/v1/reports", instruction]);
    assert_eq!(machine.n_collected, 2);
    // The second report is posted as soon as the disks have settled, not when the VIM asks to be asked again.
    let slept: Vec<u64> = machine.slept().iter().map(std::time::Duration::as_secs).collect();
    assert!(slept[..slept.len() - 1].iter().sum::<u64>() < 15, "{slept:?}");
    assert!(slept.last() >= Some(&50), "{slept:?}");
}

#[test]
fn vim_gets_disks_that_appeared_before_its_install_is_carried_out() {
    let (mock, mut machine) =
        vim(plug_once, |_, n| if n == 0 { install() } else { Reply::action("stop") });
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(order(&mock), ["/v1/reports", "/v1/reports"]);
    assert!(mock.requests("/result").is_empty(), "the second response counts");
}

#[test]
fn disks_that_stay_the_same_cost_no_second_report() {
    let (mock, mut machine) = vim(|_, _| {}, |_, _| install());
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(order(&mock), ["/v1/reports"]);
    assert_eq!(mock.codes(), ["DISK_NONE"]);
}

#[test]
fn disk_that_comes_and_goes_ends_in_an_install_and_not_in_endless_reports() {
    let (mock, mut machine) = vim(|root, n| plug(root, &format!("sdb{n}")), |_, _| install());
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(order(&mock).len(), 9);
    assert_eq!(mock.requests("/result").len(), 1);
}

#[test]
fn links_that_come_up_lead_to_another_report() {
    let listener = Listener::default();
    let of_vim = listener.clone();
    let end_links = move |_: &Path, n| {
        if n == 0 {
            of_vim.end_links(true);
        }
    };
    let (mock, mut machine) = vim(end_links, accepts);
    machine.settings.listener = listener;
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(order(&mock), ["/v1/reports", "/v1/reports", "/v1/nodes/node-7/instruction"]);
}
