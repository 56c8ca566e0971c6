//! What SIGINT and SIGTERM do to the commands that people run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::util::{agent, remove_own_variables, scratch};

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Starts the program and sends the signal right after its start.
fn interrupted(words: &str, signal: Signal) -> std::process::Output {
    let child = agent()
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    send(&child, Signal::SIGSTOP);
    send(&child, signal);
    send(&child, Signal::SIGCONT);
    child.wait_with_output().unwrap()
}

/// A busy VIM that counts the requests.
fn busy_vim() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let n_requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&n_requests);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).ok();
            counter.fetch_add(1, Ordering::SeqCst);
            let answer = "HTTP/1.1 503 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    (address, n_requests)
}

#[test]
fn a_reading_command_ends_on_the_signal_and_prints_nothing() {
    for words in ["inspect --format json", "inspect --format yaml", "inspect", "check"] {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let output = interrupted(words, signal);
            assert_eq!(output.status.signal(), Some(signal as i32), "{words}");
            assert!(output.stdout.is_empty(), "{words}");
        }
    }
}

#[test]
fn a_capture_that_is_cut_short_leaves_no_file() {
    let dir = scratch("cut-capture");
    let words = format!("capture --output {}/x.tar.zst", dir.display());
    let output = interrupted(&words, Signal::SIGTERM);
    assert_eq!(output.status.signal(), Some(Signal::SIGTERM as i32));
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_capture_that_is_cut_short_while_it_is_written_leaves_no_file() {
    let dir = scratch("cut-writing");
    let child = agent().args(["capture", "--anonymize", "-o"]).arg(dir.join("x")).spawn();
    let mut child = child.unwrap();
    let n_files = || std::fs::read_dir(&dir).unwrap().count();
    while n_files() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    send(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
    assert_eq!(n_files(), 0);
}

#[test]
fn a_capture_is_readable_only_by_its_owner_with_any_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = scratch("umask");
    for umask in ["000", "777"] {
        let file = dir.join(umask);
        let script = format!("umask {umask}; exec \"$0\" capture --only os -o {}", file.display());
        let program = agent().get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        remove_own_variables(shell.arg("-c").arg(script).arg(program));
        let status = shell.status();
        assert!(status.unwrap().success());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "umask {umask}");
    }
}

#[test]
fn no_report_is_posted_after_a_signal() {
    let (vim, n_requests) = busy_vim();
    let words = format!("report --only os --vim {vim} --allow-plain-http --lldp-wait 0");
    let output = interrupted(&words, Signal::SIGINT);
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(n_requests.load(Ordering::SeqCst), 0);

    let mut child = agent().args(words.split_whitespace()).stderr(Stdio::null()).spawn().unwrap();
    while n_requests.load(Ordering::SeqCst) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it posted");
        std::thread::sleep(Duration::from_millis(10));
    }
    send(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(n_requests.load(Ordering::SeqCst), 1, "posted again after the signal");
}
