//! What the file system `boot` of an installed system needs, so that Ignition runs once more at its next boot.
//!
//! The boot loader passes `ignition.firstboot` to the kernel while the stamp exists: GRUB through the variable that the entries
//! name. The installed Ignition takes `/ignition/config.ign`, and does nothing without a platform.

use formats::command_line::{arguments, last_value};

use super::STAMP;
use super::arguments::PLATFORM;
use super::boot::{BootFiles, Entry, MAX_ENTRY_BYTES};
use super::disk::Disk;
use super::earlier::is_ostree;
use super::grub::{self, USES, sets_variable};
use crate::act::{Code, Failure, NewFile, Order};

/// The files to replace, in this order: the config, the entries that lack something, and at last the stamp. After a power cut
/// before that, Ignition does not run, but the kernel arguments may already be the new ones.
///
/// # Errors
/// `TARGET_IO` if `boot` cannot be read; `KARGS` if an entry cannot be made to run Ignition.
pub(in crate::act) fn files(
    disk: &Disk,
    (start, size): (u64, u64),
    order: &Order,
    ignition: &[u8],
) -> Result<Vec<NewFile>, Failure> {
    let unread = |why: String| Failure::advised(Code::TargetIo, format!("reading boot: {why}"));
    let boot = disk.window(start, size).and_then(BootFiles::open).map_err(unread)?;
    let entries = boot.entries().map_err(unread)?;
    let is_set = sets_variable(&boot).map_err(unread)?;
    let unfit = |why: String| {
        Failure::new(Code::Kargs, why)
            .advise("mend the boot loader's entries, or order a platform such as metal")
    };
    let file =
        |path: &str, mode, bytes| NewFile { path: path.to_owned(), mode, bytes, before: None };
    // First what may find no room.
    let mut files = vec![file("ignition/config.ign", 0o600, ignition.to_owned())];
    let mut planned = Vec::new();
    for entry in entries.into_iter().filter(is_ostree) {
        let wanted = options(&entry, order, is_set)
            .map_err(|why| unfit(format!("boot loader entry {}: {why}", entry.name)))?;
        if entry.options.as_ref() != Some(&wanted) {
            let path = format!("loader/entries/{}", entry.name);
            let text = boot.read(&format!("/{path}"), MAX_ENTRY_BYTES).map_err(unread)?;
            let bytes = with_options(&String::from_utf8_lossy(&text), &wanted);
            files.push(NewFile { path, mode: 0o644, bytes, before: Some(text) });
        }
        planned.push(Entry { options: Some(wanted), ..entry });
    }
    grub::check(&boot, &planned).map_err(unfit)?;
    let stamp = order.firstboot_args.as_ref();
    let stamp = stamp.map(|args| format!("set ignition_network_kcmdline='{args}'\n"));
    files.push(file(STAMP.trim_start_matches('/'), 0o644, stamp.unwrap_or_default().into()));
    Ok(files)
}

/// The kernel arguments of an entry as they have to be.
fn options(entry: &Entry, order: &Order, is_set: bool) -> Result<String, String> {
    let before = entry.options.as_deref().ok_or("it has no options")?;
    let own = |word: &&String| word.starts_with("ostree=") || *word == "ignition.firstboot";
    if let Some(word) = order.append_kargs.iter().chain(&order.delete_kargs).find(own) {
        return Err(format!("{word} belongs to the boot loader, not to an order"));
    }
    let is_deleted = |word: &&str| order.delete_kargs.iter().any(|deleted| deleted == word);
    let of_platform = |word: &&str| word.starts_with(PLATFORM) && order.platform.is_some();
    let words = arguments(before).map(|argument| argument.written);
    let kept = words.filter(|word| !is_deleted(word) && !of_platform(word));
    let mut words: Vec<String> = kept.map(str::to_owned).collect();
    if let Some(platform) = &order.platform {
        words.push(format!("{PLATFORM}={platform}"));
    }
    let has = |words: &[String], wanted: &str| words.iter().any(|word| word == wanted);
    let runs_ignition =
        USES.iter().any(|uses| has(&words, uses)) || has(&words, "ignition.firstboot");
    // Other boot loaders pass the argument themselves.
    if is_set && !runs_ignition {
        words.insert(0, USES[0].to_owned());
    }
    for argument in &order.append_kargs {
        // As often as it is ordered; what is there already counts.
        let n_of = |list: &[String]| list.iter().filter(|word| *word == argument).count();
        if n_of(&words) < n_of(&order.append_kargs) {
            words.push(argument.clone());
        }
    }
    let after = words.join(" ");
    let expected = "expected its platform, such as metal";
    last_value(&after, PLATFORM).ok_or(format!("it has no {PLATFORM}, {expected}"))?;
    // Entries that differ only in blanks stay as they are.
    let is_same = words.iter().eq(arguments(before).map(|argument| argument.written));
    Ok(if is_same { before.to_owned() } else { after })
}

/// The text of an entry with other options in their first line.
fn with_options(text: &str, options: &str) -> Vec<u8> {
    let is_options = |line: &str| {
        let rest = line.trim_start().strip_prefix("options");
        rest.is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    let at = text.lines().position(is_options);
    let line = |(number, line): (usize, &str)| match at {
        Some(at) if at == number => format!("options {options}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().enumerate().map(line).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &str) -> Entry {
        let options = (!options.is_empty()).then(|| options.to_owned());
        Entry { name: "a.conf".into(), options, linux: None, initrd: None }
    }

    #[test]
    fn entries_get_what_ignition_needs_and_what_was_ordered_and_keep_the_rest() {
        let plain = Order::default();
        let asked = Order {
            append_kargs: ["a=1", "b", "a=1"].map(String::from).into(),
            delete_kargs: vec!["quiet".into()],
            platform: Some("qemu".into()),
            ..Order::default()
        };
        for (order, is_set, before, expected) in [
            (&plain, true, "$ignition_firstboot  x ignition.platform.id=metal", None),
            (&plain, true, "ignition.firstboot ignition.platform.id=metal", None),
            (&plain, false, "ignition.platform.id=metal", None),
            (
                &plain,
                true,
                "root=UUID=1 ignition.platform.id=metal",
                Some("$ignition_firstboot root=UUID=1 ignition.platform.id=metal"),
            ),
            (
                &asked,
                true,
                "$ignition_firstboot quiet b ignition.platform.id=metal rw",
                Some("$ignition_firstboot b rw ignition.platform.id=qemu a=1 a=1"),
            ),
        ] {
            let found = options(&entry(before), order, is_set).unwrap();
            assert_eq!(found, expected.unwrap_or(before));
        }
        let unbootable = Order { delete_kargs: vec!["ostree=/x".into()], ..Order::default() };
        let found = options(&entry("ostree=/x ignition.platform.id=metal"), &unbootable, true);
        assert!(found.unwrap_err().contains("belongs to the boot loader"));
        for (is_set, before, why) in [
            (true, "$ignition_firstboot", "it has no ignition.platform.id"),
            (true, "", "it has no options"),
        ] {
            let found = options(&entry(before), &plain, is_set).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn only_the_first_line_with_options_is_replaced() {
        let text = "title x\noptionsfoo\noptions a\nlinux /v\noptions b\n";
        let found = String::from_utf8(with_options(text, "c d")).unwrap();
        assert_eq!(found, "title x\noptionsfoo\noptions c d\nlinux /v\noptions b\n");
    }
}
