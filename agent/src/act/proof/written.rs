//! The boot files that coreos-installer may change for an order, and the changes that it may make.

use formats::command_line::arguments;

use crate::act::Order;

/// The change that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None.
    None,
    /// More content after the image's, or more names in a directory.
    More,
    /// Other kernel arguments in a boot loader entry.
    Entry,
    /// Other commands for the console in GRUB's configuration.
    Console,
    /// Any: another check reads it.
    Any,
}

/// The change of this file that the order allows (coreos-installer `src/install.rs`, `write_disk`).
pub(super) fn change(path: &str, order: &Order) -> Change {
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_console = !order.console.is_empty() || order.platform.is_some();
    let has_options =
        has_console || !order.append_kargs.is_empty() || !order.delete_kargs.is_empty();
    let is_entry = path.starts_with("/loader") && path.contains("/entries/");
    match path {
        "" | "/ignition" => Change::More,
        "/ignition/config.ign" => Change::Any,
        "/ignition.firstboot" if order.firstboot_args.is_some() => Change::More,
        "/grub2/grub.cfg" if has_console => Change::Console,
        // Up to 0.26 network profiles were files here; since then an archive with them follows after the initramfs.
        "/coreos-firstboot-network" if order.copy_network => Change::More,
        _ if order.copy_network && name.starts_with("initramfs") => Change::More,
        _ if is_entry && has_options => Change::Entry,
        // `zipl` writes its map, and on a secure host a new image.
        _ if cfg!(target_arch = "s390x") && ["bootmap", "sdboot"].contains(&name) => Change::Any,
        _ => Change::None,
    }
}

/// True if a text differs only in what the change allows.
pub(super) fn is_allowed(change: Change, before: &str, after: &str, order: &Order) -> bool {
    match change {
        Change::Entry => is_entry_allowed(before, after, order),
        Change::Console => without_console(before) == without_console(after),
        _ => before == after,
    }
}

/// The kernel arguments must be the image's, without those to delete and with others. Every other line must be the same.
fn is_entry_allowed(before: &str, after: &str, order: &Order) -> bool {
    let options = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("options "));
        lines.flat_map(arguments).map(|argument| argument.written.to_owned()).collect()
    };
    let rest = |text: &str| -> Vec<String> {
        let is_other = |line: &&str| !line.starts_with("options ") && !line.is_empty();
        text.lines().filter(is_other).map(str::to_owned).collect()
    };
    let may_go = |argument: &String| {
        order.delete_kargs.contains(argument)
            || argument.starts_with("console=")
            || argument.starts_with("ignition.platform.id=")
    };
    let found = options(after);
    let mut left = found.iter();
    let must_stay = options(before);
    rest(before) == rest(after)
        && must_stay
            .iter()
            .filter(|argument| !may_go(argument))
            .all(|argument| left.any(|it| it == argument))
}

/// The text without the lines between the markers that coreos-installer searches for.
fn without_console(text: &str) -> Vec<&str> {
    let mut is_console = false;
    let is_kept = |line: &&str| {
        match *line {
            "# CONSOLE-SETTINGS-START" => is_console = true,
            "# CONSOLE-SETTINGS-END" => is_console = false,
            _ => return !is_console,
        }
        true
    };
    text.lines().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engines::vim::order::tests::of;

    #[test]
    fn only_the_kernel_arguments_of_the_order_may_change_in_an_entry() {
        let order =
            of(&json!({"append_kargs": ["a=1"], "delete_kargs": ["quiet"], "platform": "qemu"}));
        let entry = |options: &str| format!("title x\nlinux /k\noptions {options}\ninitrd /i\n");
        let before =
            entry("$ignition_firstboot quiet ostree=/o console=tty0 ignition.platform.id=metal");
        let is_allowed = |after: &str| is_allowed(Change::Entry, &before, after, &order);
        let good =
            entry("$ignition_firstboot ostree=/o ignition.platform.id=qemu a=1 console=ttyS0");
        assert!(is_allowed(&good));
        for (from, to) in [
            ("ostree=/o", "ostree=/p"),
            ("ostree=/o ", ""),
            ("linux", "lynux"),
            ("/i", "/j"),
            ("$ignition_firstboot ostree=/o", "ostree=/o $ignition_firstboot"),
        ] {
            assert!(!is_allowed(&good.replacen(from, to, 1)), "{to}");
        }
    }

    #[test]
    fn only_the_console_settings_of_grub_may_change() {
        let order = of(&json!({"console": ["ttyS0"]}));
        let grub = |console: &str, rest: &str| {
            format!("a\n# CONSOLE-SETTINGS-START\n{console}# CONSOLE-SETTINGS-END\n{rest}\n")
        };
        let is_allowed =
            |after: &str| is_allowed(Change::Console, &grub("", "blscfg"), after, &order);
        assert!(is_allowed(&grub("serial\nterminal\n", "blscfg")));
        assert!(!is_allowed(&grub("serial\n", "blscfx")));
        assert!(!is_allowed("a\n# CONSOLE-SETTINGS-START\nblscfg\n"));
    }
}
