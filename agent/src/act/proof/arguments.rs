//! Checks of the boot loader entries: kernel arguments and Ignition platform, in every entry.
//!
//! coreos-installer changes the last entry in the order of names (`src/io/bls.rs`); a boot of another entry lacks the
//! requested arguments.

use formats::command_line::{arguments, last_value};

use super::boot::Entry;
use super::check;
use crate::act::{Check, CheckName, Order};

/// Kernel argument with the platform of Ignition.
pub(super) const PLATFORM: &str = "ignition.platform.id";

/// The entries read from the boot file system.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    /// The entries, or why they could not be read.
    pub(super) entries: &'a Result<Vec<Entry>, String>,
    /// Content of the first-boot stamp, to which first-boot arguments are added.
    pub(super) stamp: &'a str,
}

impl Entries<'_> {
    /// Lists the faults of the entries; each entry with its name if there are several.
    fn wrong(&self, wrong: impl Fn(&str) -> Vec<String>) -> Vec<String> {
        let entries = match self.entries {
            Ok(entries) if entries.is_empty() => return vec!["no boot loader entry".into()],
            Ok(entries) => entries,
            Err(error) => return vec![error.clone()],
        };
        let of_entry = |entry: &Entry| {
            let found = match &entry.options {
                Some(options) => wrong(options),
                None => vec!["no options".into()],
            };
            let prefix =
                if entries.len() > 1 { format!("{}: ", entry.name) } else { String::new() };
            found.into_iter().map(move |what| format!("{prefix}{what}")).collect::<Vec<_>>()
        };
        entries.iter().flat_map(of_entry).collect()
    }

    /// The options of all entries.
    fn options(&self) -> String {
        let entries = self.entries.as_deref().unwrap_or_default();
        let options: Vec<&str> = entries.iter().filter_map(|e| e.options.as_deref()).collect();
        options.join(" | ")
    }
}

/// Checks that the kernel arguments are those of the order.
pub(super) fn kernel_arguments(order: &Order, found: &Entries<'_>) -> Check {
    let asked: Vec<&str> = order.append_kargs.iter().map(String::as_str).collect();
    let mut wrong = found.wrong(|options| wrong_arguments(order, &asked, options));
    if let Some(args) = &order.firstboot_args
        && !['"', '\''].iter().any(|quote| {
            let set = format!("set ignition_network_kcmdline={quote}{args}{quote}");
            found.stamp.lines().last() == Some(&set)
        })
    {
        wrong.push(format!("first-boot arguments {args:?} are missing"));
    }
    let mut expected: Vec<String> = asked.iter().map(|argument| format!("+{argument}")).collect();
    expected.extend(order.console.iter().map(|console| format!("+console={console}")));
    expected.extend(order.delete_kargs.iter().map(|argument| format!("-{argument}")));
    let options = found.options();
    let outcome = match &wrong[..] {
        [] => Ok(options),
        _ => Err(format!("{}; found {options:?}", wrong.join(", "))),
    };
    check(CheckName::KernelArguments, &expected.join(" "), outcome)
}

fn wrong_arguments(order: &Order, asked: &[&str], options: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let words: Vec<&str> = arguments(options).map(|argument| argument.written).collect();
    let n_of =
        |argument: &str, list: &[&str]| list.iter().filter(|word| **word == argument).count();
    for argument in asked {
        if n_of(argument, &words) < n_of(argument, asked) {
            wrong.push(format!("{argument} is missing"));
        }
    }
    for console in &order.console {
        let is_there = |console: &str| words.contains(&format!("console={console}").as_str());
        if !is_there(console) && !spelt_out(console).is_some_and(|console| is_there(&console)) {
            wrong.push(format!("console={console} is missing"));
        }
    }
    for argument in &order.delete_kargs {
        if words.contains(&argument.as_str()) && !asked.contains(&argument.as_str()) {
            wrong.push(format!("{argument} is still present"));
        }
    }
    wrong.dedup();
    wrong
}

/// A serial console as coreos-installer writes it, which adds the omitted parts: `ttyS0` becomes `ttyS0,9600n8`
/// (`src/cmdline/console.rs`).
fn spelt_out(console: &str) -> Option<String> {
    let (port, settings) = console.split_once(',').unwrap_or((console, ""));
    let number = port.strip_prefix("ttyS").or_else(|| port.strip_prefix("ttyAMA"))?;
    number.parse::<u8>().ok()?;
    let n_digits = settings.bytes().take_while(u8::is_ascii_digit).count();
    let (speed, rest) = settings.split_at(n_digits);
    let mut rest = rest.chars();
    let (parity, bits) = (rest.next().unwrap_or('n'), rest.next().unwrap_or('8'));
    let speed = if speed.is_empty() { "9600" } else { speed };
    rest.next().is_none().then(|| format!("{port},{speed}{parity}{bits}"))
}

/// Checks that the Ignition platform is that of the order.
pub(super) fn platform(order: &Order, found: &Entries<'_>) -> Check {
    let of = |options: &str| last_value(options, PLATFORM).map(str::to_owned);
    let wrong = found.wrong(|options| match (of(options), &order.platform) {
        (Some(found), Some(wanted)) if found != *wanted => vec![found],
        (Some(_), _) => vec![],
        // Without a platform the installed Ignition does nothing at all.
        (None, _) => vec![format!("no {PLATFORM}")],
    });
    let outcome = match &wrong[..] {
        [] => Ok(of(&found.options()).unwrap_or_default()),
        _ => Err(wrong.join(", ")),
    };
    check(CheckName::Platform, order.platform.as_deref().unwrap_or_default(), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::vim::order::tests::of;

    fn install(text: &str) -> Order {
        of(&serde_json::from_str(&format!("{{{}}}", text.trim_start_matches(','))).unwrap())
    }

    fn entries(options: &[Option<&str>]) -> Vec<Entry> {
        let entry = |(number, options): (usize, Option<&str>)| Entry {
            name: format!("{number}.conf"),
            options: options.map(str::to_owned),
            linux: None,
            initrd: None,
        };
        options.iter().copied().enumerate().map(entry).collect()
    }

    fn checks(asked: &Order, options: &[Option<&str>], stamp: &str) -> (Check, Check) {
        let entries = Ok(entries(options));
        let found = Entries { entries: &entries, stamp };
        (kernel_arguments(asked, &found), platform(asked, &found))
    }

    #[test]
    fn every_entry_must_have_the_arguments_and_the_platform() {
        let asked = install(r#","append_kargs":["a=1"],"platform":"qemu""#);
        let good = "a=1 ignition.platform.id=qemu";
        let (arguments, platform) = checks(&asked, &[Some(good), Some(good)], "");
        assert!(arguments.ok && platform.ok);
        let old = "ignition.platform.id=metal";
        let (arguments, platform) = checks(&asked, &[Some(old), Some(good)], "");
        assert!(arguments.found.unwrap().starts_with("0.conf: a=1 is missing"));
        assert_eq!((platform.ok, platform.found.as_deref()), (false, Some("0.conf: metal")));
        let (arguments, platform) = checks(&install(""), &[Some(good), None], "");
        assert!(!arguments.ok && !platform.ok);
    }

    #[test]
    fn boot_file_system_without_an_entry_is_wrong() {
        let (arguments, platform) = checks(&install(""), &[], "");
        assert_eq!(platform.found.as_deref(), Some("no boot loader entry"));
        assert!(!arguments.ok && !platform.ok);
        let unread = Err("/loader/entries: not found".to_owned());
        let found = Entries { entries: &unread, stamp: "" };
        assert!(!kernel_arguments(&install(""), &found).ok);
    }

    #[test]
    fn serial_console_is_found_as_coreos_installer_writes_it() {
        for (asked, written) in [
            ("ttyS0", "ttyS0,9600n8"),
            ("ttyS1,115200", "ttyS1,115200n8"),
            ("ttyAMA0,115200e", "ttyAMA0,115200e8"),
            ("ttyS0,115200n8", "ttyS0,115200n8"),
            ("tty0", "tty0"),
        ] {
            let asked = install(&format!(r#","console":["{asked}"]"#));
            let ok = |options: String| checks(&asked, &[Some(&options)], "").0.ok;
            assert!(ok(format!("quiet console={written}")), "{written}");
            assert!(!ok("quiet console=ttyS7,9600n8".into()), "{written}");
        }
        for odd in ["ttyS", "ttyS0,115200n8x", "tty1", "ttyS999"] {
            assert_eq!(spelt_out(odd), None, "{odd}");
        }
    }
}
