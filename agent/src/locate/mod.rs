//! `locate`: the lights of the chassis, of network ports and disk bays. This is the only code that switches lights.

mod bay;
mod kernel;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use nix::errno::Errno;
use probes::block::Disk;
use probes::collect::{Options, collect};
use probes::machine::{Machine, Source};
use tracing::info;

use crate::clock::{Clock as _, RealClock};
use crate::signals::Stop;

/// The completion code for a command that the controller does not know (IPMI 2.0, table 5-2).
const INVALID_COMMAND: u8 = 0xc1;

/// Makes the `part`'s light blink for `seconds`, or until a signal; it is off afterwards.
///
/// # Errors
/// If the part is unknown, or this machine has no switchable light for it.
pub fn locate(part: &str, seconds: u64, stop: &Stop) -> anyhow::Result<()> {
    let source = Arc::new(Source::live());
    let machine = Machine::new(Arc::clone(&source), "locate");
    if part == "chassis" {
        return chassis(seconds, stop, kernel::identify_chassis);
    }
    if machine.list("sys/class/net").iter().any(|name| name == part) {
        info!("blinking the light of network port {part} for {seconds} s; Ctrl-C ends it");
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        return kernel::blink_port(part, seconds).map_err(|error| port_error(part, &error));
    }
    let only = Options { only: vec!["block".to_owned()], ..Options::default() };
    let block = collect(&source, &only).inventory.block;
    let disks = block.map(|block| block.disks).ok_or_else(|| anyhow!("no disks could be read"))?;
    let disk = named(&disks, part)?;
    let light = bay::set(&machine, Path::new("/"), disk, true)?;
    info!("{}: turned on by /{light} for {seconds} s; Ctrl-C ends it", disk.device);
    RealClock.sleep(Duration::from_secs(seconds), stop);
    bay::set(&machine, Path::new("/"), disk, false).map(drop)
}

/// Blinks the chassis light. The controller turns it off by itself, even if this program is killed.
fn chassis(seconds: u64, stop: &Stop, blink: impl Fn(u8) -> io::Result<u8>) -> anyhow::Result<()> {
    let mut left = seconds;
    while left > 0 && !stop.is_stopped() {
        // The command has one byte for the interval, so a longer one is renewed.
        let interval = u8::try_from(left).unwrap_or(u8::MAX);
        completed(blink(interval))?;
        if left == seconds {
            info!("the light of the chassis blinks for {seconds} s; Ctrl-C ends it");
        }
        left -= u64::from(interval);
        RealClock.sleep(Duration::from_secs(interval.into()), stop);
    }
    if stop.is_stopped() { completed(blink(0)) } else { Ok(()) }
}

fn completed(answer: io::Result<u8>) -> anyhow::Result<()> {
    match answer {
        Ok(0) => Ok(()),
        Ok(INVALID_COMMAND) => {
            bail!("the BMC does not support Chassis Identify (completion code C1h)")
        }
        Ok(code) => bail!("the BMC refused Chassis Identify (completion code {code:02X}h)"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{} does not exist: this machine has no BMC, or its drivers ipmi_si and ipmi_devintf are not loaded",
            kernel::IPMI
        ),
        Err(error) => Err(error).with_context(|| format!("asking the BMC at {}", kernel::IPMI)),
    }
}

fn port_error(name: &str, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EOPNOTSUPP) => anyhow!("the driver of {name} cannot make its light blink"),
        Some(Errno::EBUSY) => anyhow!("another program makes the light of {name} blink"),
        _ => anyhow!("making the light of {name} blink: {error}"),
    }
}

/// The only disk with this device, serial number or WWN.
fn named<'a>(disks: &'a [Disk], part: &str) -> anyhow::Result<&'a Disk> {
    let target = std::fs::canonicalize(part).ok();
    let target = target.as_ref().and_then(|path| path.to_str()).unwrap_or(part);
    let is_meant = |disk: &&Disk| {
        let names = [Some(&disk.name), disk.serial.as_ref(), disk.wwn.as_ref()];
        disk.device == target || names.into_iter().flatten().any(|name| name == part)
    };
    let found: Vec<&Disk> = disks.iter().filter(is_meant).collect();
    match found.as_slice() {
        [disk] => Ok(disk),
        [] => bail!("{part} is neither `chassis` nor a network port or disk of this machine"),
        [first, second, ..] => bail!("{part} is {} and {}; name one", first.device, second.device),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn chassis_error(answer: impl Fn() -> io::Result<u8>) -> String {
        format!("{:#}", chassis(1, &Stop::default(), |_| answer()).unwrap_err())
    }

    #[test]
    fn light_of_the_chassis_goes_off_by_itself_or_at_a_signal() {
        let sent = RefCell::new(Vec::new());
        let identify = |seconds: u8| {
            sent.borrow_mut().push(seconds);
            Ok(0)
        };
        chassis(1, &Stop::default(), identify).unwrap();
        assert_eq!(sent.take(), [1], "the controller turns it off");

        let stop = Stop::default();
        let stopped = |seconds: u8| {
            sent.borrow_mut().push(seconds);
            stop.stop();
            Ok(0)
        };
        chassis(600, &stop, stopped).unwrap();
        assert_eq!(sent.take(), [255, 0], "one byte of seconds, then off");
    }

    #[test]
    fn what_is_not_possible_is_said_with_its_reason() {
        let unsupported = "the BMC does not support Chassis Identify (completion code C1h)";
        assert_eq!(chassis_error(|| Ok(0xc1)), unsupported);
        let refused = "the BMC refused Chassis Identify (completion code D4h)";
        assert_eq!(chassis_error(|| Ok(0xd4)), refused);
        let missing = chassis_error(|| Err(io::ErrorKind::NotFound.into()));
        assert!(missing.starts_with("/dev/ipmi0 does not exist: this machine has no BMC"));
        assert!(chassis_error(|| Err(Errno::ETIMEDOUT.into())).contains("asking the BMC"));
        let port = |errno: Errno| port_error("eno1", &errno.into()).to_string();
        assert_eq!(port(Errno::EOPNOTSUPP), "the driver of eno1 cannot make its light blink");
        assert!(port(Errno::EPERM).ends_with("Operation not permitted (os error 1)"));
    }

    #[test]
    fn disk_is_found_by_device_serial_or_wwn_and_never_guessed() {
        let disk = |name: &str, serial: &str| Disk {
            name: name.to_owned(),
            device: format!("/dev/rci-{name}"),
            serial: Some(serial.to_owned()),
            wwn: Some(format!("0x5000c500{name}")),
            ..Disk::default()
        };
        let disks = [disk("sda", "S1"), disk("sdb", "S2"), disk("sdc", "S2")];
        for part in ["sda", "/dev/rci-sda", "S1", "0x5000c500sda"] {
            assert_eq!(named(&disks, part).unwrap().name, "sda", "{part}");
        }
        let error = |part| named(&disks, part).unwrap_err().to_string();
        assert_eq!(error("S2"), "S2 is /dev/rci-sdb and /dev/rci-sdc; name one");
        assert!(error("sdx").ends_with("nor a network port or disk of this machine"));
    }
}
