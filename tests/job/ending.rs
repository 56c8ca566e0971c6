//! Installs that do not finish: the installer fails, a server stalls, a signal arrives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use run_coreos_installer::act::watchdog::Patience;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::install::{inline, result, vim};
use super::machine::Machine;
use super::mock::{Mock, Reply};

#[test]
fn each_failure_of_the_installer_has_its_code_and_the_counters_say_what_is_left() {
    for (says, writes, code) in [
        (
            "Partitions in use on /dev/sda:\nError: checking for exclusive access\nfound busy partitions",
            false,
            "DISK_BUSY",
        ),
        (
            "Read disk 4/4 (100%)\nError: syncing data to disk\nInput/output error (os error 5)\nResetting partition table\nError: install failed",
            true,
            "TARGET_IO",
        ),
        ("Error: HTTP status client error (404 Not Found) for url", false, "HTTP_404"),
        // Whatever it says, it wrote.
        ("Error: HTTP status client error (404 Not Found) for url", true, "HTTP_404"),
        ("Read disk (9%)\nError: no space left on device", true, "NO_SPACE"),
        ("Error: something nobody knows", true, "INSTALLER_FAILED"),
        // Whatever it says, it did not write.
        ("Read disk (9%)\nError: something nobody knows", false, "INSTALLER_FAILED"),
    ] {
        let mock = vim(json!({"ignition": inline()}));
        let mut machine = Machine::new(&mock.url);
        let write = if writes { "write_some" } else { "" };
        machine.installer("0.27.0", &format!("{write}\ncat >&2 <<'E'\n{says}\nE\nexit 1"));
        let exit_status = if writes { ExitStatus::HalfWritten } else { ExitStatus::Untouched };
        assert_eq!(machine.run().exit_status, exit_status, "{says}");
        assert_eq!(machine.is_untouched("sda"), !writes);
        let result = result(&mock);
        assert_eq!(result["code"], code);
        assert_eq!(result["disk_state"], if writes { "half_written" } else { "untouched" });
        assert_eq!(result["outcome"], if writes { "failed" } else { "refused" });
        assert_eq!(result["write"]["bytes_written_before"], 0);
        assert_eq!(result["write"]["bytes_written_after"], if writes { 2048 * 512 } else { 0 });
        assert_eq!(result["attempts"], 1);
        assert!(!result["log_tail"].as_array().unwrap().is_empty());
        assert!(result["advice"].as_str().is_some());
    }
}

#[test]
fn a_disk_without_counters_counts_as_half_written_after_any_run() {
    for stat in ["", "0 0 0 0 0 0 0 0 0 0 0\n"] {
        let mock = vim(json!({"ignition": inline()}));
        let mut machine = Machine::new(&mock.url);
        std::fs::write(machine.root.join("sys/devices/sda/stat"), stat).unwrap();
        machine
            .installer("0.27.0", "echo 'Error: HTTP status client error (404 Not Found)'; exit 1");
        assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
        let result = result(&mock);
        assert_eq!(result["disk_state"], "half_written");
        assert!(result.get("write").is_none());
    }
}

#[test]
fn a_failed_fetch_leaves_the_disk_untouched_and_is_refused() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    let fails = "echo 'Read disk (0%)'; echo 'Error: error sending request for url' >&2; exit 1";
    machine.installer("0.27.0", fails);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let result = result(&mock);
    assert_eq!((&result["attempts"], &result["code"]), (&json!(3), &json!("IMAGE_FETCH")));
    assert_eq!(
        (&result["outcome"], &result["disk_state"]),
        (&json!("refused"), &json!("untouched"))
    );
}

#[test]
fn a_disk_that_hangs_in_the_kernel_is_reported_and_ends_the_job_with_a_result() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.settings.site.patience = Patience {
        stall: Duration::from_millis(300),
        hang: Duration::from_millis(900),
        kill: Duration::from_millis(300),
        repeat: Duration::from_mins(1),
    };
    let in_flight = "echo '100 0 800 0 5 0 2048 0 7 0 0' > $STAT";
    machine.installer("0.27.0", &format!("write_some; trap - EXIT; {in_flight}; sleep 600"));
    let started = std::time::Instant::now();
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    let result = result(&mock);
    assert_eq!((&result["code"], &result["attempts"]), (&json!("TARGET_HUNG"), &json!(1)));
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("/dev/sda has 7 requests in flight"), "{message}");
    let events = mock.requests("/events");
    let mut events =
        events.iter().flat_map(|batch| batch.json()["events"].as_array().unwrap().clone());
    assert!(events.any(|event| {
        event["message"].as_str().is_some_and(|text| text.starts_with("no progress for "))
    }));
}

#[test]
fn a_broken_download_is_tried_up_to_three_times() {
    let fails =
        "write_some; echo 'Read disk (5%)'; echo 'Error: error decoding response body' >&2; exit 1";
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", fails);
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    let result = result(&mock);
    assert_eq!((&result["attempts"], &result["code"]), (&json!(3), &json!("IMAGE_FETCH")));
    assert_eq!(machine.read("args").lines().count(), 3);
}

#[test]
fn a_disk_that_changes_between_two_tries_is_not_written_again() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer(
        "0.27.0",
        "write_some; echo OTHER > $ROOT/sys/devices/sda/serial; echo 'Error: connection reset' >&2; exit 1",
    );
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    let result = result(&mock);
    assert_eq!((&result["attempts"], &result["code"]), (&json!(1), &json!("DISK_CHANGED")));
    assert_eq!(result["disk_state"], "half_written");
}

#[test]
fn disk_that_is_pulled_out_during_the_write_is_lost_and_not_too_small() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    let full = "echo 'Error: decoding and writing image: No space left on device (os error 28)'";
    let pulled = "rm $ROOT/sys/dev/block/8:0";
    machine.installer("0.27.0", &format!("write_some; {pulled}; {full} >&2; exit 1"));
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    let result = result(&mock);
    assert_eq!((&result["code"], &result["attempts"]), (&json!("TARGET_IO"), &json!(1)));
    assert_eq!(result["disk_state"], "half_written");
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("no longer exists") && message.contains("No space left"), "{message}");
}

#[test]
fn a_signal_stops_the_installer_and_is_reported() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", "write_some; echo 'Read disk (5%)'; touch $ROOT/begun; sleep 600");
    let (stop, begun) = (machine.stop.clone(), machine.root.join("begun"));
    std::thread::spawn(move || {
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(200));
        stop.stop();
    });
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    let result = result(&mock);
    assert_eq!(result["code"], "INTERRUPTED");
    assert_eq!(result["disk_state"], "half_written");
}

#[test]
fn an_installer_that_hangs_is_killed() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.settings.site.installer_limit = Duration::from_millis(500);
    machine.installer("0.27.0", "write_some; sleep 600");
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    assert_eq!(result(&mock)["code"], "INSTALLER_FAILED");
}

#[test]
fn signal_ends_the_wait_for_the_start_of_an_image() {
    for is_drip in [true, false] {
        let mock = Mock::start(move |request, _| match request.path.as_str() {
            "/v1/reports" => {
                let url = format!("http://{}/image.raw", request.header("host").unwrap());
                let install =
                    json!({"ignition": inline(), "image": {"url": url, "insecure": true}});
                Reply::json(
                    200,
                    &json!({
                        "api_version": "1", "request_id": "r1", "action": "install", "install": install,
                    }),
                )
            }
            "/image.raw" if is_drip => Reply::Drip(Duration::from_millis(500)),
            "/image.raw" => Reply::Late(Duration::from_mins(2), 200, json!({})),
            _ => Reply::status(204),
        });
        let mut machine = Machine::new(&mock.url);
        let (stop, mock) = (machine.stop.clone(), Arc::new(mock));
        let seen = Arc::clone(&mock);
        let stopped = std::thread::spawn(move || {
            while seen.requests("/image.raw").is_empty() {
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.stop();
            Instant::now()
        });
        assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
        let elapsed = stopped.join().unwrap().elapsed();
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
        assert_eq!(mock.requests("/result")[0].json()["code"], "INTERRUPTED");
    }
}
