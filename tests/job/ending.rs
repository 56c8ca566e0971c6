//! Installs that do not finish: the installer fails, a server stalls, a signal arrives.

use std::fs;
use std::time::{Duration, Instant};

use run_coreos_installer::act::watchdog::Patience;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::install::{Job, with};
use super::mock::{Mock, Reply, assert_says};

/// Runs an install by a coreos-installer that does this and leaves the disk half written. Checks the result and returns it.
fn half_written(script: &str, code: &str) -> Value {
    let expected = json!({"code": code, "disk_state": "half_written", "attempts": 1});
    Job::new(json!({})).script(script).ends(ExitStatus::HalfWritten, &expected)
}

#[test]
fn each_failure_of_the_installer_has_its_code_and_the_counters_say_what_is_left() {
    // Whatever it says, the counters of the disk decide.
    for (says, writes, code) in [
        ("Error: HTTP status client error (404 Not Found) for url", false, "HTTP_404"),
        ("Error: HTTP status client error (404 Not Found) for url", true, "HTTP_404"),
        ("Read disk (9%)\nError: no space left on device", true, "NO_SPACE"),
        ("Read disk (9%)\nError: something nobody knows", false, "INSTALLER_FAILED"),
    ] {
        let write = if writes { "write_some" } else { "" };
        let script = format!("{write}\ncat >&2 <<'E'\n{says}\nE\nexit 1");
        let mut job = Job::new(json!({})).script(&script);
        let (exit_status, disk_state, outcome, n_bytes) = if writes {
            (ExitStatus::HalfWritten, "half_written", "failed", 2048 * 512)
        } else {
            (ExitStatus::Untouched, "untouched", "refused", 0)
        };
        let expected = json!({
            "code": code, "disk_state": disk_state, "outcome": outcome, "attempts": 1,
            "write": {"bytes_written_before": 0, "bytes_written_after": n_bytes},
        });
        let result = job.ends(exit_status, &expected);
        assert_eq!(job.machine.is_untouched("sda"), !writes);
        assert!(!result["log_tail"].as_array().unwrap().is_empty());
        assert!(result["advice"].is_string());
    }
}

#[test]
fn a_disk_without_counters_counts_as_half_written_after_any_run() {
    for stat in ["", "0 0 0 0 0 0 0 0 0 0 0\n"] {
        let fails = "echo 'Error: HTTP status client error (404 Not Found)'; exit 1";
        let mut job = Job::new(json!({})).script(fails);
        fs::write(job.machine.root.join("sys/devices/sda/stat"), stat).unwrap();
        let expected = json!({"disk_state": "half_written", "write": null});
        job.ends(ExitStatus::HalfWritten, &expected);
    }
}

#[test]
fn a_disk_that_hangs_in_the_kernel_is_reported_and_ends_the_job_with_a_result() {
    let in_flight = "echo '100 0 800 0 5 0 2048 0 7 0 0' > $STAT";
    let script = format!("write_some; trap - EXIT; {in_flight}; sleep 600");
    let mut job = Job::new(json!({})).script(&script);
    job.machine.settings.site.patience = Patience {
        stall: Duration::from_millis(300),
        hang: Duration::from_millis(900),
        kill: Duration::from_millis(300),
        repeat: Duration::from_mins(1),
    };
    let started = Instant::now();
    let expected = json!({"code": "TARGET_HUNG", "attempts": 1});
    let result = job.ends(ExitStatus::HalfWritten, &expected);
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    assert_says(&result["message"], &["/dev/sda has 7 requests in flight"]);
    assert!(job.mock.messages().iter().any(|text| text.starts_with("no progress for ")));
}

#[test]
fn a_broken_download_is_tried_up_to_three_times() {
    let error = "Error: error decoding response body";
    for (script, exit_status, disk_state) in [
        ("write_some; echo 'Read disk (5%)'", ExitStatus::HalfWritten, "half_written"),
        ("echo 'Read disk (0%)'", ExitStatus::Untouched, "untouched"),
    ] {
        let mut job = Job::new(json!({})).script(&format!("{script}; echo '{error}' >&2; exit 1"));
        let expected = json!({"attempts": 3, "code": "IMAGE_FETCH", "disk_state": disk_state});
        job.ends(exit_status, &expected);
        assert_eq!(job.machine.read("args").lines().count(), 3);
    }
}

#[test]
fn a_disk_that_changes_between_two_tries_is_not_written_again() {
    let script = "write_some; echo OTHER > $ROOT/sys/devices/sda/serial; echo 'Error: connection reset' >&2; exit 1";
    half_written(script, "DISK_CHANGED");
}

#[test]
fn disk_that_is_pulled_out_during_the_write_is_lost_and_not_too_small() {
    let full = "echo 'Error: decoding and writing image: No space left on device (os error 28)'";
    let script = format!("write_some; rm $ROOT/sys/dev/block/8:0; {full} >&2; exit 1");
    let result = half_written(&script, "TARGET_IO");
    assert_says(&result["message"], &["no longer exists", "No space left"]);
}

#[test]
fn an_installer_that_hangs_is_killed() {
    let mut job = Job::new(json!({})).script("write_some; sleep 600");
    job.machine.settings.site.installer_limit = Duration::from_millis(500);
    job.ends(ExitStatus::HalfWritten, &json!({"code": "INSTALLER_FAILED"}));
}

#[test]
fn signal_ends_the_wait_for_the_start_of_an_image() {
    for is_drip in [true, false] {
        let mock = Mock::start(move |request, _| match request.path.as_str() {
            "/v1/reports" => {
                let url = format!("http://{}/image.raw", request.header("host").unwrap());
                Reply::install(&with(json!({"image": {"url": url, "insecure": true}})))
            }
            "/image.raw" if is_drip => Reply::Drip(Duration::from_millis(500)),
            "/image.raw" => Reply::Late(Duration::from_mins(2), 200, json!({})),
            _ => Reply::status(204),
        });
        let seen = mock.clone();
        let mut job = Job::at(mock);
        let stopped = job.machine.stops_when(move || !seen.requests("/image.raw").is_empty());
        job.ends(ExitStatus::Untouched, &json!({"code": "INTERRUPTED"}));
        let elapsed = stopped.join().unwrap().elapsed();
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    }
}
