//! Warns about settings that make a live image useless or inaccessible, with the remedy, when the image is made.

use std::io::Read as _;

use formats::{command_line, data};
use ignition::live::{AgentBinary, FileSource, LiveError, Settings, gzip};

use super::{is_config, job};
use crate::act::protect::is_kernel_name;
use crate::cli::LiveConfigOptions;

/// Size of the ISO area for a compressed Ignition config (coreos-installer `docs/iso-embed-ignition.md`).
const ISO_AREA_BYTES: usize = 262_144;

/// Number of bytes read to recognise a program's form: its program headers follow the 64-byte ELF header.
const HEAD_BYTES: u64 = 4096;

/// The texts of the warnings, by name.
const TEXTS: &str = include_str!("warnings.txt");

/// Returns the warnings for the output `text`.
pub(super) fn warnings(
    options: &LiveConfigOptions,
    settings: &Settings,
    text: &str,
) -> Vec<String> {
    let is_config = is_config(options.format);
    let mut all = Vec::new();
    if is_config {
        all.extend(of_config(options, settings, text).into_iter().flatten());
    } else {
        let is_missing = options.config_url.is_none() && !options.agent_in_image;
        all.extend(text_of("no-config").filter(|_| is_missing));
        all.extend(settings.platform.as_deref().and_then(ignition::platform::warning));
    }
    all.extend(expect_missing(settings).into_iter().chain(kernel_name(settings)));
    all.extend(target(settings).into_iter().filter(|_| is_config));
    let merged = settings.merge_warnings();
    all.extend(merged.iter().map(|warning| format!("the config of --merge: {warning}")));
    all
}

/// The warning of this name.
fn text_of(name: &str) -> Option<String> {
    data::lookup(TEXTS, name).map(str::to_owned)
}

/// Warns about an Ignition config.
fn of_config(options: &LiveConfigOptions, settings: &Settings, text: &str) -> [Option<String>; 7] {
    let warn = |name: &str, is_so: bool| text_of(name).filter(|_| is_so);
    let has_login =
        !settings.ssh_keys.is_empty() || settings.password_hash.is_some() || settings.autologin;
    let fetches = fetches(settings);
    let is_https = options.config_url.as_ref().is_some_and(|url| url.starts_with("https:"));
    [
        warn("agent", matches!(settings.agent, AgentBinary::InImage) && !options.agent_in_image),
        // Another system may not have the libraries.
        warn("shared-libraries", is_dynamic(options).unwrap_or_default()),
        warn("no-login", settings.vim.is_none() && !has_login),
        too_large(options, text),
        // Ignition needs the network before it writes the network's profiles.
        warn("network", !settings.network.is_empty() && fetches),
        // Ignition cannot know a CA before it has read the config that contains it.
        warn("ca", settings.ca.is_some() && is_https),
        // Ignition fetches without the agent's proxy.
        warn("proxy", settings.proxy.is_some() && !settings.spec.has_proxy() && fetches),
    ]
}

/// Warns about parts of the --install config that Ignition on the installed system would ignore or wait for.
fn target(settings: &Settings) -> Vec<String> {
    let checked = settings.install.as_ref().and_then(|target| target.checked().ok()?);
    let Some(checked) = checked else { return Vec::new() };
    let values = |name: &str| settings.agent_options.get(name).into_iter().flatten();
    let platform = values("platform").next().map(String::as_str);
    let arguments = values("append_karg").chain(values("firstboot_args"));
    let arguments = arguments.flat_map(|arguments| command_line::arguments(arguments));
    let arguments = arguments.map(|argument| argument.written);
    let network = ignition::platform::network_warning(platform, checked.may_fetch, arguments);
    let in_config =
        checked.warnings.iter().map(|warning| format!("the config of --install: {warning}"));
    in_config.chain(platform.and_then(ignition::platform::warning)).chain(network).collect()
}

/// Warns if nothing adds the expectations file, without which the agent stops.
fn expect_missing(settings: &Settings) -> Option<String> {
    let path = job::expect_file(settings)?;
    (!settings.files.iter().any(|file| file.path == *path)).then(|| {
        format!(
            "the agent reads {path} (--agent-option expect), but no --file adds it; add it with --file \
             {path}=FILE unless the image has it"
        )
    })
}

/// Warns about kernel names. A disk is protected by a stable name: serial number, WWN, path, or a label on it.
fn kernel_name(settings: &Settings) -> Option<String> {
    let mut disks = settings.agent_options.get("protect")?.iter().flat_map(|list| list.split(','));
    let disk = disks.find(|disk| is_kernel_name(disk.trim()))?;
    Some(format!(
        "--agent-option protect contains {disk:?}, the kernel's name of a disk, which the agent refuses: \
         another disk may have it after the next boot; use its serial number, WWN or a path below /dev/disk"
    ))
}

/// Returns true if the agent needs shared libraries; `None` if its program cannot be read.
fn is_dynamic(options: &LiveConfigOptions) -> Option<bool> {
    let mut head = Vec::new();
    let file = std::fs::File::open(options.binary.as_ref()?).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(has_interpreter(&head))
}

/// Returns true if an ELF program names an interpreter (`PT_INTERP`, gABI chapter 5).
fn has_interpreter(elf: &[u8]) -> bool {
    let half = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    // Only 64-bit little-endian programs; CoreOS for other machines is out of scope of this warning.
    if elf.get(4..6) != Some(&[2, 1]) {
        return false;
    }
    let (Some(start), Some(size), Some(n)) = (word(0x20), half(0x36), half(0x38)) else {
        return false;
    };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    (0..usize::from(n)).any(|i| start.checked_add(i * usize::from(size)).and_then(&word) == Some(3))
}

/// Warns if an ISO has no room for the config.
fn too_large(options: &LiveConfigOptions, text: &str) -> Option<String> {
    // coreos-installer compresses with xz, whose result is at most slightly larger than that of gzip.
    if options.config_url.is_some() || text.len() < ISO_AREA_BYTES {
        return None;
    }
    let n_bytes = gzip(text.as_bytes()).len();
    (n_bytes > ISO_AREA_BYTES).then(|| {
        let remedy = if options.binary.is_some() && options.binary_url.is_none() {
            "let Ignition fetch the agent with --binary-url"
        } else {
            "let Ignition fetch its files by URL"
        };
        format!(
            "the config has {n_bytes} bytes compressed, and an ISO has room for {ISO_AREA_BYTES}; {remedy}, \
             or serve the config and name its address with --config-url"
        )
    })
}

/// Returns the remedy for an error: if a config is too large for Ignition, most of it is the agent.
pub(super) fn remedy(error: &LiveError, settings: &Settings) -> &'static str {
    let is_too_large = matches!(error, LiveError::Refused(refusal)
        if refusal.problems.iter().any(|problem| problem.path == "$" && problem.found.ends_with(" bytes")));
    if is_too_large && matches!(settings.agent, AgentBinary::Embedded(_)) {
        "; let Ignition fetch the agent with --binary-url"
    } else {
        ""
    }
}

/// Returns true if Ignition fetches files in the live image.
fn fetches(settings: &Settings) -> bool {
    let is_url = |source: &FileSource| matches!(source, FileSource::Url { .. });
    matches!(settings.agent, AgentBinary::Fetched { .. })
        || settings.files.iter().any(|file| is_url(&file.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_with_an_interpreter_needs_shared_libraries() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(has_interpreter(&own), !cfg!(target_feature = "crt-static"));
        assert!(
            !has_interpreter(b"\x7fELF") && !has_interpreter(&own[..70]) && !has_interpreter(b"")
        );
    }
}
