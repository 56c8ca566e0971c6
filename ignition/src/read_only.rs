//! Where Ignition cannot write on CoreOS: a config that does so is valid, and the boot ends in the emergency shell.
//!
//! `/usr` is mounted read-only (`ostree-prepare-root(1)`), and no folder can be added at the top: the one of the
//! deployment is immutable (`ostree-admin-deploy(1)`), and that of a live system is a squashfs. Other folders at the top
//! are links to `/var`, and so is `/usr/local`.

/// Folders at the top whose content is the system's.
const OF_THE_SYSTEM: [&str; 5] = ["usr", "bin", "sbin", "lib", "lib64"];
/// The other folders at the top of a CoreOS system.
const OTHERS: [&str; 17] = [
    "boot", "dev", "efi", "etc", "home", "media", "mnt", "opt", "ostree", "proc", "root", "run",
    "srv", "sys", "sysroot", "tmp", "var",
];

/// A warning for the absolute path of a file, directory or link that Ignition cannot create on CoreOS.
#[must_use]
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
        for path in ["/data/a", "/a"] {
            assert!(warning(path).unwrap().starts_with("nothing can be added to /"), "{path}");
        }
    }
}
