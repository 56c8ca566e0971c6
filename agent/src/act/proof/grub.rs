//! GRUB's use of the first-boot stamp: `grub.cfg` sets a variable if the stamp exists, and each boot loader entry passes that
//! variable to the kernel (Ignition's `grub2/05_ignition.cfg`, bootupd's `configs.d`). Without it Ignition never runs.

use super::boot::{BootFiles, Entry};

/// GRUB's configuration.
const GRUB_CFG: &str = "/grub2/grub.cfg";
/// The largest that is read, in bytes.
const MAX_CFG_BYTES: u64 = 1 << 20;
/// The assignment of the variable, with or without `set`.
const SETS: &str = "ignition_firstboot=";
/// The uses of the variable in the options of an entry.
pub(super) const USES: [&str; 2] = ["$ignition_firstboot", "${ignition_firstboot}"];

/// True if GRUB's configuration is there and sets the variable.
///
/// # Errors
/// It cannot be read, or is empty, damaged or too large.
pub(super) fn sets_variable(files: &BootFiles) -> Result<bool, String> {
    if files.size(GRUB_CFG).is_err() {
        return Ok(false);
    }
    let text = files.read(GRUB_CFG, MAX_CFG_BYTES).map_err(|why| format!("{GRUB_CFG}: {why}"))?;
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() || text.contains('\0') {
        return Err(format!("{GRUB_CFG} is empty or damaged"));
    }
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    Ok(text.lines().filter(|line| !is_comment(line)).any(|line| line.contains(SETS)))
}

/// Checks that GRUB and the entries agree on the variable. An image that has another way needs neither; on s390x there is no
/// GRUB.
///
/// # Errors
/// A message with the part that is missing.
pub(super) fn check(files: &BootFiles, entries: &[Entry]) -> Result<(), String> {
    if cfg!(target_arch = "s390x") {
        return Ok(());
    }
    let is_set = sets_variable(files)?;
    let words = |entry: &Entry| entry.options.clone().unwrap_or_default();
    let uses = |entry: &&Entry| {
        words(entry).split_whitespace().any(|w| USES.contains(&w) || w == "ignition.firstboot")
    };
    let needs = |entry: &&Entry| words(entry).split_whitespace().any(|w| USES.contains(&w));
    match (entries.iter().find(needs), entries.iter().find(|entry| !uses(entry))) {
        (Some(entry), _) if !is_set => {
            Err(format!("{GRUB_CFG} does not set the variable {} of {}", USES[0], entry.name))
        }
        (_, Some(entry)) if is_set => {
            Err(format!("{} does not pass {} to the kernel", entry.name, USES[0]))
        }
        _ => Ok(()),
    }
}
