//! Warns about settings that make a live image useless or inaccessible, with the remedy, when the image is made.

use std::io::Read as _;

use formats::command_line;
use ignition::live::{AgentBinary, FileSource, LiveError, Settings, gzip};

use super::{is_config, job};
use crate::act::protect::is_kernel_name;
use crate::cli::LiveConfigOptions;

/// Size of the ISO area for a compressed Ignition config (coreos-installer `docs/iso-embed-ignition.md`).
const ISO_AREA_BYTES: usize = 262_144;

/// Number of bytes read to recognise a program's form: its program headers follow the 64-byte ELF header.
const HEAD_BYTES: u64 = 4096;

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
        all.extend(is_missing.then(|| NO_CONFIG.to_owned()));
        all.extend(settings.platform.as_deref().and_then(ignition::platform::warning));
    }
    all.extend(expect_missing(settings).into_iter().chain(kernel_name(settings)));
    all.extend(target(settings).into_iter().filter(|_| is_config));
    all
}

/// Nothing adds the agent to the image that is booted.
const NO_CONFIG: &str = "these kernel arguments name no Ignition config, so nothing adds the agent to the image; add \
     --config-url, append the config to the initramfs with `coreos-installer pxe ignition wrap`, or confirm with \
     --agent-in-image that the image has it";

/// Warns about an Ignition config.
fn of_config(options: &LiveConfigOptions, settings: &Settings, text: &str) -> [Option<String>; 7] {
    let warn = |is_so: bool, text: &str| is_so.then(|| text.to_owned());
    let has_login =
        !settings.ssh_keys.is_empty() || settings.password_hash.is_some() || settings.autologin;
    let fetches = fetches(settings);
    let is_https = options.config_url.as_ref().is_some_and(|url| url.starts_with("https:"));
    [
        warn(
            matches!(settings.agent, AgentBinary::InImage) && !options.agent_in_image,
            "the config does not contain the agent, so its unit fails unless the image has \
             /usr/local/bin/run-coreos-installer; add it with --binary (for an ISO also --binary-url, or \
             --binary-on-iso instead), \
             or confirm with --agent-in-image that the image has it",
        ),
        warn(
            // Another system may not have the libraries.
            is_dynamic(options).unwrap_or_default(),
            "the program of --binary needs shared libraries, which the live image may not have in the same \
             version; use a static build (make static)",
        ),
        warn(
            settings.vim.is_none() && !has_login,
            "without a VIM and without a login, only the console shows why an install failed; add \
             --ssh-key or --password-hash-file",
        ),
        too_large(options, text),
        warn(
            // Ignition needs the network before it writes the network's profiles.
            !settings.network.is_empty() && fetches,
            "Ignition fetches files before the profiles of --network exist; if that network has no DHCP, write \
             them with --network-dir and add them with `coreos-installer iso customize --network-keyfile`, or \
             give dracut's ip= as a kernel argument",
        ),
        warn(
            // Ignition cannot know a CA before it has read the config that contains it.
            settings.ca.is_some() && is_https,
            "Ignition fetches --config-url before it knows the CA in that config; serve the config with a \
             certificate of a public CA or over plain HTTP, or append it to the initramfs with \
             `coreos-installer pxe ignition wrap`",
        ),
        warn(
            // Ignition fetches without the agent's proxy.
            settings.proxy.is_some() && !settings.spec.has_proxy() && fetches,
            "Ignition fetches files without --proxy, which spec 3.0 does not have; use --spec 3.1 or newer \
             if the live image supports it, or a server that is reached without the proxy",
        ),
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
