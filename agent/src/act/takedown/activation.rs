//! Keeps udev from starting arrays and volume groups again. Their members stay on the disk until it is overwritten,
//! and udev looks at a device after each write to it: it would assemble a stopped array while coreos-installer writes.
//!
//! An empty rules file in `/run` replaces the one of the same name in `/usr/lib` (udev(7)). On CoreOS,
//! `coreos-installer-disable-device-auto-activation.service` has the same purpose, where it runs.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

/// Directory in which the running system's rules are replaced.
const RULES: &str = "/run/udev/rules.d";
/// The rules of mdadm and LVM, as Fedora, RHEL and Debian name them.
const NAMES: [&str; 5] = [
    "64-md-raid-assembly.rules",
    "65-md-incremental.rules",
    "69-dm-lvm.rules",
    "69-dm-lvm-metad.rules",
    "69-lvm.rules",
];
/// udev looks for changed rules at most every 3 s (`manager_reload` in systemd's `udevd.c`).
const UDEV_DELAY: Duration = Duration::from_millis(3500);

/// Disables it for the rest of this boot. Returns how long udev may take to notice.
///
/// # Errors
/// The links cannot be made.
pub(in crate::act) fn disable() -> io::Result<Duration> {
    let rules = Path::new(RULES);
    // Without udev nothing is started.
    let is_new = rules.parent().is_some_and(Path::is_dir) && replace(rules)?;
    Ok(if is_new { UDEV_DELAY } else { Duration::ZERO })
}

/// True if any rule was not replaced before.
fn replace(rules: &Path) -> io::Result<bool> {
    fs::create_dir_all(rules)?;
    let replaced = NAMES.map(|name| match symlink("/dev/null", rules.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    });
    replaced.into_iter().try_fold(false, |is_new, made| Ok(is_new | made?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_start_arrays_and_groups_are_replaced_by_empty_ones() {
        let rules = tempfile::tempdir().unwrap();
        assert!(replace(rules.path()).unwrap(), "udev has yet to notice");
        assert!(!replace(rules.path()).unwrap());
        for name in NAMES {
            assert_eq!(fs::read(rules.path().join(name)).unwrap(), b"", "{name}");
        }
    }
}
