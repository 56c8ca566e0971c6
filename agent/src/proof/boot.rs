//! The file system labelled `boot`: the Ignition config and the boot loader entries in it.
//!
//! Entries follow the Boot Loader Specification, `/loader/entries/*.conf`; coreos-installer changes the
//! `options` line of the last one in the order of names.

use formats::command_line::{arguments, last_value};
use std::io::Read as _;

use super::disk::Window;
use crate::api::{Check, CheckName, Install};

/// The largest boot loader entry in bytes.
const MAX_ENTRY_BYTES: u64 = 64 * 1024;
/// The most names of a directory that are read.
const MAX_NAMES: usize = 4096;

/// A file system that is read without being mounted.
pub(super) enum BootFiles {
    Ext4(ext4_view::Ext4),
    Fat(Box<fatfs::FileSystem<Window>>),
}

impl BootFiles {
    /// Reads the superblock.
    pub(super) fn open(window: Window) -> Result<Self, String> {
        match ext4_view::Ext4::load(Box::new(window.clone())) {
            Ok(ext4) => Ok(Self::Ext4(ext4)),
            Err(not_ext4) => fatfs::FileSystem::new(window, fatfs::FsOptions::new())
                .map(|fat| Self::Fat(Box::new(fat)))
                .map_err(|not_fat| format!("neither ext4 ({not_ext4}) nor FAT ({not_fat})")),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Ext4(_) => "ext4",
            Self::Fat(_) => "vfat",
        }
    }

    /// Reads a file that must not be larger than `max_bytes`.
    pub(super) fn read(&self, path: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
        match self {
            Self::Ext4(ext4) => {
                let size = ext4.metadata(path).map_err(|error| error.to_string())?.len();
                if size > max_bytes {
                    return Err(format!("{size} bytes, expected at most {max_bytes}"));
                }
                ext4.read(path).map_err(|error| error.to_string())
            }
            Self::Fat(fat) => {
                let mut bytes = Vec::new();
                let file = fat
                    .root_dir()
                    .open_file(path.trim_start_matches('/'))
                    .map_err(|error| error.to_string())?;
                file.take(max_bytes + 1)
                    .read_to_end(&mut bytes)
                    .map_err(|error| error.to_string())?;
                if bytes.len() as u64 > max_bytes {
                    return Err(format!("more than {max_bytes} bytes"));
                }
                Ok(bytes)
            }
        }
    }

    /// The names in a directory.
    fn names(&self, path: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Ext4(ext4) => ext4
                .read_dir(path)
                .map_err(|error| error.to_string())?
                .take(MAX_NAMES)
                .map(|entry| {
                    let entry = entry.map_err(|error| error.to_string())?;
                    Ok(entry.file_name().display().to_string())
                })
                .collect(),
            Self::Fat(fat) => fat
                .root_dir()
                .open_dir(path.trim_start_matches('/'))
                .map_err(|error| error.to_string())?
                .iter()
                .take(MAX_NAMES)
                .map(|entry| {
                    entry.map(|entry| entry.file_name()).map_err(|error| error.to_string())
                })
                .collect(),
        }
    }

    /// The kernel arguments of the last boot loader entry.
    pub(super) fn last_entry_options(&self) -> Option<String> {
        let mut names = self.names("/loader/entries").ok()?;
        names.retain(|name| {
            std::path::Path::new(name).extension().is_some_and(|extension| extension == "conf")
        });
        names.sort();
        let bytes =
            self.read(&format!("/loader/entries/{}", names.last()?), MAX_ENTRY_BYTES).ok()?;
        options_line(&String::from_utf8_lossy(&bytes))
    }
}

/// The value of the `options` line.
fn options_line(entry: &str) -> Option<String> {
    entry.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix("options")?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim().to_owned())
    })
}

/// Checks that the kernel arguments are those of the instruction.
pub(super) fn kernel_arguments(
    install: &Install,
    options: Option<&str>,
    files: &BootFiles,
) -> Check {
    let firstboot = install.firstboot_args.as_ref().map(|_| {
        files
            .read("/ignition.firstboot", MAX_ENTRY_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    });
    compare_arguments(install, options, firstboot.as_deref())
}

fn compare_arguments(install: &Install, options: Option<&str>, firstboot: Option<&str>) -> Check {
    let mut wrong = Vec::new();
    let words: Vec<&str> =
        arguments(options.unwrap_or_default()).map(|argument| argument.written).collect();
    let n_of =
        |argument: &str, list: &[&str]| list.iter().filter(|word| **word == argument).count();
    let asked: Vec<&str> = install.append_kargs.iter().map(String::as_str).collect();
    for argument in &asked {
        if n_of(argument, &words) < n_of(argument, &asked) {
            wrong.push(format!("{argument} is missing"));
        }
    }
    for console in &install.console {
        let argument = format!("console={console}");
        if !words.contains(&argument.as_str()) {
            wrong.push(format!("{argument} is missing"));
        }
    }
    for argument in &install.delete_kargs {
        if words.contains(&argument.as_str()) && !asked.contains(&argument.as_str()) {
            wrong.push(format!("{argument} is still present"));
        }
    }
    if let (Some(args), Some(firstboot)) = (&install.firstboot_args, firstboot)
        && !firstboot.contains(args.as_str())
    {
        wrong.push(format!("first-boot arguments {args:?} are missing"));
    }
    if options.is_none() {
        wrong.push("no boot loader entry with options".into());
    }
    wrong.dedup();
    let mut expected = Vec::new();
    expected.extend(asked.iter().map(|argument| format!("+{argument}")));
    expected.extend(install.delete_kargs.iter().map(|argument| format!("-{argument}")));
    let found = if wrong.is_empty() {
        options.unwrap_or_default().to_owned()
    } else {
        format!("{}; found {:?}", wrong.join(", "), options.unwrap_or_default())
    };
    Check {
        name: CheckName::KernelArguments,
        ok: wrong.is_empty(),
        fatal: true,
        expected: (!expected.is_empty()).then(|| expected.join(" ")),
        found: Some(found),
    }
}

/// Checks that the Ignition platform is that of the instruction.
pub(super) fn platform(install: &Install, options: Option<&str>) -> Check {
    let found = last_value(options.unwrap_or_default(), "ignition.platform.id");
    let found = found.map(str::to_owned);
    let ok = match &install.platform {
        Some(wanted) => found.as_ref() == Some(wanted),
        // Without a platform the installed Ignition does nothing at all.
        None => found.is_some(),
    };
    Check {
        name: CheckName::Platform,
        ok,
        fatal: true,
        expected: install.platform.clone(),
        found: Some(found.unwrap_or_else(|| "no ignition.platform.id".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(text: &str) -> Install {
        serde_json::from_str(&format!(r#"{{"ignition":{{"inline":"{{}}"}}{text}}}"#)).unwrap()
    }

    #[test]
    fn the_options_line_is_found_among_the_others() {
        let entry = "title x\noptionsfoo no\nlinux /a\noptions  a=1 b \n";
        assert_eq!(options_line(entry).as_deref(), Some("a=1 b"));
        assert_eq!(options_line("title x\n"), None);
    }

    #[test]
    fn missing_and_remaining_arguments_are_detected() {
        let asked = install(r#","append_kargs":["a=1","c"],"delete_kargs":["quiet"]"#);
        let ok = |options: &str| compare_arguments(&asked, Some(options), None).ok;
        assert!(ok("x a=1 c"));
        assert!(!ok("x a=12 c"));
        assert!(!ok("a=1 c quiet"));
        assert!(!ok(""));
        assert!(!compare_arguments(&asked, None, None).ok);
    }

    #[test]
    fn missing_first_boot_arguments_are_detected() {
        let asked = install(r#","firstboot_args":"ip=dhcp a""#);
        let with = |firstboot| compare_arguments(&asked, Some("x"), Some(firstboot)).ok;
        assert!(with("set ignition_network_kcmdline='ip=dhcp a'\n"));
        assert!(!with(""));
    }

    #[test]
    fn a_platform_is_required_even_if_none_was_asked_for() {
        assert!(platform(&install(""), Some("ignition.platform.id=metal")).ok);
        assert!(!platform(&install(""), Some("quiet")).ok);
        assert!(
            !platform(&install(r#","platform":"qemu""#), Some("ignition.platform.id=metal")).ok
        );
    }
}
