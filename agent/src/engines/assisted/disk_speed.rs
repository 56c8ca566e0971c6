//! The step `installation-disk-speed-check`, without a write: reads of 4 KiB at random places, each followed by
//! `fdatasync(2)`, which makes the drive flush its cache.
//!
//! assisted-installer-agent writes 22 MiB to the disk instead (fio with `--fdatasync=1`), before the choice of disk is
//! confirmed. This agent never does, so its measurement is a lower bound of an etcd member's.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Duration;

use nix::fcntl::OFlag;
use serde_json::{Value, json};

use super::install::find;
use super::step::Step;
use super::tasks::Around;
use crate::clean;
use crate::clock::Clock;

/// Bytes of a read, and the alignment of direct reads.
const READ_BYTES: usize = 4096;
/// Most samples; 99 % of them are the percentile that is reported.
const MAX_SAMPLES: usize = 200;
/// Fewer samples have no 99th percentile.
const MIN_SAMPLES: usize = 20;
/// Duration of the measurement.
const LIMIT: Duration = Duration::from_secs(10);

/// Measures the disk that the step names, if the service knows it from the inventory.
pub(super) fn check(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let path = request.get("path").and_then(Value::as_str).ok_or("it names no path")?;
    let none = || format!("{} is no disk of the inventory", clean::quoted(path, 200));
    let disk = find(&around.disks, path).ok_or_else(none)?;
    let size_bytes = disk.size_bytes.filter(|size| *size >= READ_BYTES as u64);
    let size_bytes = size_bytes.ok_or_else(|| format!("the size of {} is unknown", disk.device))?;
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(&disk.device)
        .map_err(|error| format!("opening {}: {error}", disk.device))?;
    let samples = measure(&file, size_bytes, around.api.client.clock.as_ref())
        .map_err(|error| format!("reading {}: {error}", disk.device))?;
    if samples.len() < MIN_SAMPLES {
        let n = samples.len();
        return Err(format!("{}: only {n} reads in {} s", disk.device, LIMIT.as_secs()));
    }
    Ok(json!({"path": path, "io_sync_duration": percentile_ms(samples)}))
}

fn measure(file: &File, size_bytes: u64, clock: &dyn Clock) -> std::io::Result<Vec<Duration>> {
    let mut buffer = vec![0; 2 * READ_BYTES];
    let start = buffer.as_ptr().align_offset(READ_BYTES).min(READ_BYTES);
    let n_blocks = size_bytes / READ_BYTES as u64;
    let since = |start| clock.now().duration_since(start);
    let (began, mut samples) = (clock.now(), Vec::new());
    while samples.len() < MAX_SAMPLES && since(began) < LIMIT {
        let block = (u128::from(n_blocks) * u128::from(clock.random())) >> 32;
        let offset = u64::try_from(block).unwrap_or_default() * READ_BYTES as u64;
        let started = clock.now();
        file.read_exact_at(&mut buffer[start..start + READ_BYTES], offset)?;
        file.sync_data()?;
        samples.push(since(started));
    }
    Ok(samples)
}

/// The 99th percentile in ms, rounded up: 0 would claim that the disk needs no time.
fn percentile_ms(mut samples: Vec<Duration>) -> u64 {
    samples.sort();
    let at = (samples.len() * 99).div_ceil(100).saturating_sub(1);
    let sample = samples.get(at).copied().unwrap_or_default();
    u64::try_from(sample.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn percentile_is_rounded_up_and_skips_the_worst_hundredth() {
        let mut samples = vec![Duration::from_micros(300); 99];
        samples.push(Duration::from_secs(3));
        assert_eq!(percentile_ms(samples.clone()), 1);
        samples[98] = Duration::from_micros(4001);
        assert_eq!(percentile_ms(samples), 5);
    }

    #[test]
    fn measuring_reads_within_the_disk_and_changes_nothing() {
        let path = std::env::temp_dir().join(format!("rci-speed-{}", std::process::id()));
        std::fs::write(&path, vec![7; 5 * READ_BYTES + 100]).unwrap();
        let file = File::open(&path).unwrap();
        let samples = measure(&file, 5 * READ_BYTES as u64 + 100, &RealClock).unwrap();
        assert!(samples.len() >= MIN_SAMPLES);
        assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
        std::fs::remove_file(&path).unwrap();
    }
}
