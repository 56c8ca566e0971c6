//! Facts that only a running machine has: uptime, load, available memory, and the resources that this program has used.
//!
//! Sources: `/proc/{uptime,loadavg,meminfo}` through the crate `sysinfo`, `/proc/self/status` through `procfs`,
//! `getrusage(2)`. `sysinfo` reads the host by itself and cannot be given a root, so this file is the one reader
//! outside of [`Machine`](crate::machine::Machine), and no replay contains its facts.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use procfs::process::Process;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{MemoryRefreshKind, System};

/// The running machine at one moment. These figures differ from run to run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Live {
    /// Time since the machine started, in seconds.
    pub uptime_s: Option<u64>,
    /// Average number of tasks that were running or waiting for a disk.
    pub load: Option<Load>,
    /// Memory in bytes that programs can get without swapping (`MemAvailable`).
    pub available_memory_bytes: Option<u64>,
    /// The most memory in bytes that this program has used so far (`VmHWM`).
    pub agent_peak_memory_bytes: Option<u64>,
    /// CPU time in ms that this program has used so far, in user and kernel mode.
    pub agent_cpu_time_ms: Option<u64>,
}

/// The load averages of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Over the last minute.
    pub one_minute: f64,
    /// Over the last five minutes.
    pub five_minutes: f64,
    /// Over the last fifteen minutes.
    pub fifteen_minutes: f64,
}

/// Reads the running machine.
pub fn live() -> Live {
    // `ru_maxrss` would be the peak of whatever ran before `execve(2)` in this process.
    let status = Process::myself().and_then(|process| process.status()).ok();
    let load = System::load_average().ok().map(|load| Load {
        one_minute: load.one,
        five_minutes: load.five,
        fifteen_minutes: load.fifteen,
    });
    Live {
        uptime_s: System::uptime().ok(),
        load,
        available_memory_bytes: available_memory_bytes(),
        agent_peak_memory_bytes: status.and_then(|status| status.vmhwm?.checked_mul(1024)),
        agent_cpu_time_ms: cpu_time_ms(),
    }
}

/// Memory in bytes that programs can get without swapping; `None` if the kernel does not report it.
pub fn available_memory_bytes() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    // sysinfo leaves 0 where it could not read the file.
    (system.total_memory() > 0).then(|| system.available_memory())
}

fn cpu_time_ms() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let time = usage.user_time() + usage.system_time();
    u64::try_from(time.num_milliseconds()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_machine_has_every_figure_and_they_are_plausible() {
        let one = live();
        let memory = vec![1_u8; 64 << 20];
        let sum: u64 = memory.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, 64 << 20);
        let other = live();
        assert!(other.uptime_s.unwrap() >= one.uptime_s.unwrap());
        assert!(one.load.unwrap().one_minute >= 0.0);
        assert!(one.available_memory_bytes.unwrap() > 1 << 20);
        assert!(other.agent_peak_memory_bytes.unwrap() >= 64 << 20);
        assert!(other.agent_cpu_time_ms.unwrap() >= one.agent_cpu_time_ms.unwrap());
        assert!(other.agent_cpu_time_ms.unwrap() > 0);
    }
}
