//! Places where Ignition cannot write on CoreOS, or where its files are lost: a config that does so is valid, and the
//! boot ends in the emergency shell, or in a system without the file.
//!
//! `/usr` is mounted read-only (`ostree-prepare-root(1)`), and no folder can be added at the top: the one of the
//! deployment is immutable (`ostree-admin-deploy(1)`), and that of a live system is a squashfs. Other folders at the top
//! are links to `/var`, and so is `/usr/local`.

/// Folders at the top over which the kernel and systemd mount file systems in memory (`file-hierarchy(7)`).
const MOUNTED_OVER: [&str; 4] = ["dev", "proc", "run", "sys"];
/// Folders at the top whose content is the system's.
const OF_THE_SYSTEM: [&str; 5] = ["usr", "bin", "sbin", "lib", "lib64"];
/// The other folders at the top of a CoreOS system.
const OTHERS: [&str; 13] = [
    "boot", "efi", "etc", "home", "media", "mnt", "opt", "ostree", "root", "srv", "sysroot", "tmp",
    "var",
];

/// A warning for the absolute path of a file, directory or link that Ignition cannot create on CoreOS.
pub fn warning(path: &str) -> Option<&'static str> {
    let mut parts = path.trim_start_matches('/').split('/');
    let (first, second) = (parts.next()?, parts.next());
    // A file system can be mounted at /.
    if first.is_empty() {
        return None;
    }
    if OF_THE_SYSTEM.contains(&first) && (first, second) != ("usr", Some("local")) {
        return Some(
            "CoreOS mounts /usr read-only: Ignition fails, and the boot ends in the emergency shell; \
             /etc, /var, /opt and /usr/local can be written",
        );
    }
    if MOUNTED_OVER.contains(&first) {
        return Some(
            "the kernel and systemd mount file systems of their own over /dev, /proc, /run and /sys: nothing that \
             Ignition creates there is in the system that boots; /etc, /var, /opt and /usr/local can be written",
        );
    }
    let is_known = OF_THE_SYSTEM.contains(&first) || OTHERS.contains(&first);
    (!is_known).then_some(
        "nothing can be added to / on CoreOS: Ignition fails, and the boot ends in the emergency shell; \
         /etc, /var, /opt and /usr/local can be written",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_coreos_mounts_read_only_get_a_warning() {
        for path in [
            "/etc/a",
            "/var/lib/a",
            "/usr/local/bin/a",
            "/opt/a",
            "/root/.bashrc",
            "/home/core/a",
            "/boot/a",
        ] {
            assert_eq!(warning(path), None, "{path}");
        }
        for path in ["/usr/bin/a", "/usr", "/bin/a", "/usr/localhost", "/lib/modules/a"] {
            assert!(warning(path).unwrap().starts_with("CoreOS mounts /usr read-only"), "{path}");
        }
        for path in ["/proc/x", "/sys/class/a", "/dev/a", "/run/a", "/dev", "//run/a"] {
            let found = warning(path).unwrap();
            assert!(found.starts_with("the kernel and systemd mount file systems"), "{path}");
        }
        for path in ["/data/a", "/a", "/device/a", "/process", "/runs"] {
            assert!(warning(path).unwrap().starts_with("nothing can be added to /"), "{path}");
        }
    }
}
