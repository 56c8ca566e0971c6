//! What hostile responses and large configs cost in memory: the job in a process of its own, whose peak the kernel keeps.

use std::process::Command;
use std::time::Duration;

use super::machine::Machine;
use super::mock::{Mock, Reply};

const NAME: &str = "memory::hostile_responses_and_large_configs_cost_little_memory";
const VIM: &str = "MEMORY_TEST_VIM";
const MIB: u64 = 1 << 20;
const IGNITION: &str = "vnd.coreos.ignition+json";

/// Peak of this process in bytes (`VmHWM`, `Documentation/filesystems/proc.rst`).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// In the child: runs the job once and says how far the peak rose above that of a job that only reboots. The code that
/// both run is in memory by then: of a debug build that is several MiB.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn run_child(vim: &str) {
    let plain = Mock::start(|_, _| Reply::action("reboot"));
    Machine::new(&plain.url).run();
    let mut machine = Machine::new(vim);
    machine.settings.vim.timeouts.headers = Duration::from_secs(3);
    machine.settings.vim.timeouts.body = Duration::from_secs(3);
    let before = peak();
    machine.run();
    // The kernel sums up the memory of its CPUs now and then, so the peak may seem to fall by some pages.
    println!("GREW {}", peak().saturating_sub(before));
}

/// How much memory a job costs whose first answer is this one.
fn cost(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (u64, Mock) {
    let mock = Mock::vim(move |request, n| match request.path.as_str() {
        "/v1/reports" if n > 0 => Reply::action("reboot"),
        path => answer(path),
    });
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(VIM, &mock.url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let grew = text.lines().find_map(|line| line.split("GREW ").nth(1));
    (grew.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap(), mock)
}

/// An Ignition config of 8 MiB: one large file, or many small ones.
fn large_config(n_files: usize) -> String {
    let content = "A".repeat((8 << 20) / n_files - 120);
    let files: Vec<String> = (0..n_files)
        .map(|n| format!(r#"{{"path":"/etc/f{n}","contents":{{"source":"data:,{content}"}}}}"#))
        .collect();
    format!(r#"{{"ignition":{{"version":"3.3.0"}},"storage":{{"files":[{}]}}}}"#, files.join(","))
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are worth reading")]
fn hostile_responses_and_large_configs_cost_little_memory() {
    if let Ok(vim) = std::env::var(VIM) {
        run_child(&vim);
        return;
    }
    let typed =
        |bytes: String| Reply::bytes(bytes.as_bytes()).and("Content-Type", "application/json");
    let raw = |head: &str, again: Vec<u8>| {
        Reply::Raw(head.to_owned().into_bytes(), again, Duration::ZERO)
    };
    let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let costs = [
        ("endless body", cost(|_| Reply::Flood).0),
        ("endless JSON", cost(move |_| raw(&format!("{ok}\r\n"), b"[1,1,1,".repeat(999))).0),
        (
            "endless Ignition config",
            cost(move |_| raw(&format!("{ok}\r\n").replace("json", IGNITION), vec![b' '; 9999])).0,
        ),
        ("endless header", cost(move |_| raw(&format!("{ok}X: "), b"x".repeat(9999))).0),
        ("100 Continue", cost(move |_| raw("", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(99))).0),
        ("nesting", cost(move |_| typed(format!("{{\"action\":{}", "[".repeat(1_000_000)))).0),
        (
            "many values",
            cost(move |_| typed(format!("{{\"action\":[{}1]}}", "1,".repeat(500_000)))).0,
        ),
    ];
    for (what, bytes) in costs {
        assert!(bytes <= 16 * MIB, "{what}: {} KiB", bytes / 1024);
        println!("{what} costs {} KiB", bytes / 1024);
    }
    for n_files in [1, 2000, 20_000] {
        let (bytes, mock) = cost(move |_| Reply::ignition(&large_config(n_files)));
        let result = mock.result();
        assert_eq!(result["attempts"], 1, "{n_files} files: {result:#}");
        println!("an Ignition config of 8 MiB with {n_files} files costs {} KiB", bytes / 1024);
        assert!(bytes <= 80 * MIB, "{n_files} files: {} KiB", bytes / 1024);
    }
}
