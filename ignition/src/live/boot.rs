//! Kernel arguments of the live image, and the files that pass them to it: iPXE, PXELINUX, GRUB.
//!
//! Sources: kernel `Documentation/admin-guide/kernel-parameters.rst` (double quotes keep spaces);
//! Ignition `docs/operator-notes.md`; dracut module 35coreos-live for `coreos.live.rootfs_url`; iPXE
//! `src/core/exec.c`: words are split at white space, nothing can be quoted or escaped, `${…}` is
//! expanded, `||`, `&&` and `;` end a command, and a word that starts with `#` starts a comment; SYSLINUX
//! `doc/syslinux.txt`: `APPEND` is the rest of a line; GRUB manual, "Quoting": nothing is special within single quotes.

use super::checks::{fetch_url, is_one_word, refuse, require};
use super::{Boot, LiveError, Settings, Target};
use crate::text::shown;

/// Longest kernel command line on x86 in bytes, without the final NUL (`COMMAND_LINE_SIZE`).
const MAX_COMMAND_LINE_BYTES: usize = 2047;

/// Makes the kernel arguments of the live image, on one line.
///
/// # Errors
/// [`LiveError`] if a setting is invalid, an argument cannot be expressed, or the line is too long.
pub fn kernel_arguments(settings: &Settings) -> Result<String, LiveError> {
    let arguments = arguments(settings)?;
    let line = arguments.iter().map(|argument| word(argument)).collect::<Vec<_>>().join(" ");
    let (found, limit) = (format!("{} bytes", line.len()), MAX_COMMAND_LINE_BYTES);
    let expected = format!("at most {limit} bytes in all");
    require(line.len() <= limit, "kernel_arguments", found, expected)?;
    Ok(line)
}

/// The kernel arguments, not quoted.
fn arguments(settings: &Settings) -> Result<Vec<String>, LiveError> {
    settings.check()?;
    let platform = settings.platform.as_deref().unwrap_or("metal");
    let expected = "the id of a platform, e.g. metal or packet";
    require(is_one_word(platform), "platform", shown(platform), expected)?;
    let mut words: Vec<String> =
        vec!["ignition.firstboot".to_owned(), format!("ignition.platform.id={platform}")];
    for (setting, name, url) in [
        ("config_url", "ignition.config.url", &settings.config_url),
        ("rootfs_url", "coreos.live.rootfs_url", &settings.rootfs_url),
    ] {
        if let Some(url) = url {
            fetch_url(setting, url)?;
            words.push(format!("{name}={url}"));
        }
    }
    words.extend(settings.vim.as_ref().map(|vim| format!("rci.vim={vim}")));
    if let Some(Target::Url(url)) = &settings.install {
        words.push(format!("rci.ignition={url}"));
    }
    // The agent refuses http without this, and may have no configuration file.
    if settings.allow_plain_http {
        words.push("rci.allow_plain_http=true".to_owned());
    }
    let n_ours = words.len();
    for argument in &settings.kernel_arguments {
        refuse_second(argument, &words[..n_ours])?;
        check_form(argument)?;
        words.push(argument.clone());
    }
    Ok(words)
}

/// Refuses an argument that would contradict one of `ours`, or start another installer.
fn refuse_second(argument: &str, ours: &[String]) -> Result<(), LiveError> {
    let name = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    if ours.iter().any(|ours| name(ours) == name(argument)) {
        let expected = match name(argument).as_str() {
            "ignition.platform.id" => "one platform; --platform sets it".to_owned(),
            name => format!("one argument {name}, which the other options set"),
        };
        return refuse("kernel_arguments", shown(argument), expected);
    }
    let is_other = !argument.starts_with("coreos.inst.") && argument != "coreos.inst";
    let expected = "no argument of CoreOS's own installer, which would write a disk too";
    require(is_other, "kernel_arguments", shown(argument), expected)
}

fn check_form(argument: &str) -> Result<(), LiveError> {
    let expected = "one argument of printable ASCII characters without double quotes";
    let is_text = argument.bytes().all(|b| (b.is_ascii_graphic() || b == b' ') && b != b'"');
    let name = argument.split('=').next().unwrap_or_default();
    let is_good = is_text && is_one_word(name) && name != "--";
    require(is_good, "kernel_arguments", shown(argument), expected)
}

/// One kernel argument; a value with spaces is quoted.
fn word(argument: &str) -> String {
    match argument.split_once('=') {
        Some((name, value)) if value.contains(' ') => format!("{name}=\"{value}\""),
        _ => argument.to_owned(),
    }
}

/// Makes the iPXE script that boots the live image with [`kernel_arguments`].
///
/// # Errors
/// [`LiveError`] as for [`kernel_arguments`], if [`Settings::boot`] is not set, and for text that iPXE's language
/// cannot express: `${`, two consecutive spaces, the words `||`, `&&` and `;`, or a word that starts with `#`.
pub fn ipxe_script(settings: &Settings) -> Result<String, LiveError> {
    let boot = boot(settings)?;
    let arguments = kernel_arguments(settings)?;
    let ends_command = |word: &str| ["||", "&&", ";"].contains(&word) || word.starts_with('#');
    let is_special = arguments.contains("${") || arguments.contains("  ");
    let is_plain = !is_special && !arguments.split(' ').any(ends_command);
    let expected = "nothing that iPXE would interpret: ${, ||, &&, ;, #, two consecutive spaces";
    require(is_plain, "kernel_arguments", shown(&arguments), expected)?;
    Ok(format!(
        include_str!("../../templates/boot.ipxe"),
        // A percent-encoded brace in a URL keeps iPXE from expanding it.
        kernel = boot.kernel_url.replace("${", "$%7B"),
        initramfs = boot.initramfs_url.replace("${", "$%7B"),
        arguments = arguments
    ))
}

/// The URLs of kernel and initramfs, checked.
fn boot(settings: &Settings) -> Result<&Boot, LiveError> {
    let Some(boot) = &settings.boot else {
        return refuse("boot", "missing", "the URLs of kernel and initramfs");
    };
    fetch_url("boot.kernel_url", &boot.kernel_url)?;
    fetch_url("boot.initramfs_url", &boot.initramfs_url)?;
    Ok(boot)
}

/// Makes a PXELINUX configuration, e.g. `pxelinux.cfg/default`. HTTP needs `lpxelinux.0`; `pxelinux.0` has only TFTP.
///
/// # Errors
/// As for [`ipxe_script`], but only a line break would be special, and no argument has one.
pub fn pxelinux_config(settings: &Settings) -> Result<String, LiveError> {
    let boot = boot(settings)?;
    Ok(format!(
        include_str!("../../templates/boot.pxelinux"),
        kernel = boot.kernel_url,
        initramfs = boot.initramfs_url,
        arguments = kernel_arguments(settings)?
    ))
}

/// Makes a GRUB menu entry, for `grub.cfg` on a TFTP or HTTP server or on a disk.
///
/// # Errors
/// As for [`ipxe_script`], and for a single quote or a backslash, which GRUB alters.
pub fn grub_entry(settings: &Settings) -> Result<String, LiveError> {
    let boot = boot(settings)?;
    // For its limit.
    kernel_arguments(settings)?;
    let words: Vec<String> =
        arguments(settings)?.iter().map(|word| quoted(word)).collect::<Result<_, _>>()?;
    let device = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        quoted(&format!("({scheme},{host})/{path}"))
    };
    Ok(format!(
        include_str!("../../templates/boot.grub"),
        kernel = device(&boot.kernel_url)?,
        initramfs = device(&boot.initramfs_url)?,
        arguments = words.join(" ")
    ))
}

/// A word of GRUB's language. `linux` itself puts double quotes around a word with spaces, and a backslash before each
/// quote and backslash (`grub-core/lib/cmdline.c`).
fn quoted(word: &str) -> Result<String, LiveError> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/:,=@%+[]".contains(&b);
    if word.bytes().all(is_plain) {
        return Ok(word.to_owned());
    }
    let expected = "neither a single quote nor a backslash, which GRUB would alter";
    require(!word.contains(['\'', '\\']), "kernel_arguments", shown(word), expected)?;
    Ok(format!("'{word}'"))
}
