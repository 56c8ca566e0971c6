//! Kernel arguments of the live image, and the iPXE script that passes them.
//!
//! Sources: kernel `Documentation/admin-guide/kernel-parameters.rst` (double quotes keep spaces);
//! Ignition `docs/operator-notes.md`; dracut module 35coreos-live for `coreos.live.rootfs_url`; iPXE
//! `src/core/exec.c`: words are split at white space, nothing can be quoted or escaped, `${…}` is
//! expanded, `||`, `&&` and `;` end a command, and a word that starts with `#` starts a comment.

use super::settings::{fetch_url, is_one_word, refuse};
use super::{LiveError, Settings, Target};
use crate::text::shown;

/// Longest kernel command line on x86 in bytes, without the final NUL (`COMMAND_LINE_SIZE`).
const MAX_COMMAND_LINE_BYTES: usize = 2047;

/// Makes the kernel arguments of the live image, on one line.
///
/// # Errors
/// [`LiveError`] if a setting is invalid, an argument cannot be expressed, or the line is too long.
pub fn kernel_arguments(settings: &Settings) -> Result<String, LiveError> {
    settings.check()?;
    let mut words: Vec<String> =
        vec!["ignition.firstboot".to_owned(), "ignition.platform.id=metal".to_owned()];
    if let Some(url) = &settings.config_url {
        fetch_url("config_url", url)?;
        words.push(format!("ignition.config.url={url}"));
    }
    if let Some(url) = settings.boot.as_ref().and_then(|boot| boot.rootfs_url.as_ref()) {
        fetch_url("boot.rootfs_url", url)?;
        words.push(format!("coreos.live.rootfs_url={url}"));
    }
    if let Some(vim) = &settings.vim {
        words.push(format!("rci.vim={vim}"));
    }
    if let Some(Target::Url(url)) = &settings.install {
        words.push(format!("rci.ignition={url}"));
    }
    // The agent refuses http without this, and may have no configuration file.
    if settings.allow_plain_http {
        words.push("rci.allow_plain_http=true".to_owned());
    }
    for argument in &settings.kernel_arguments {
        words.push(word(argument)?);
    }
    let line = words.join(" ");
    if line.len() > MAX_COMMAND_LINE_BYTES {
        let expected = format!("at most {MAX_COMMAND_LINE_BYTES} bytes in all");
        return refuse("kernel_arguments", format!("{} bytes", line.len()), expected);
    }
    Ok(line)
}

/// One kernel argument; a value with spaces is quoted.
fn word(argument: &str) -> Result<String, LiveError> {
    let expected = "one argument of printable ASCII characters without double quotes";
    let is_text = argument.bytes().all(|b| (b.is_ascii_graphic() || b == b' ') && b != b'"');
    let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
    if !is_text || !is_one_word(name) || name == "--" {
        return refuse("kernel_arguments", shown(argument), expected);
    }
    if value.contains(' ') {
        return Ok(format!("{name}=\"{value}\""));
    }
    Ok(argument.to_owned())
}

/// Makes the iPXE script that boots the live image with [`kernel_arguments`].
///
/// # Errors
/// [`LiveError`] as for [`kernel_arguments`], if [`Settings::boot`] is not set, and for what iPXE's language cannot
/// express: `${`, two consecutive spaces, the words `||`, `&&` and `;`, or a word that starts with `#`.
pub fn ipxe_script(settings: &Settings) -> Result<String, LiveError> {
    let Some(boot) = &settings.boot else {
        return refuse("boot", "missing", "the URLs of kernel and initramfs");
    };
    fetch_url("boot.kernel_url", &boot.kernel_url)?;
    fetch_url("boot.initramfs_url", &boot.initramfs_url)?;
    let arguments = kernel_arguments(settings)?;
    let ends_command = |word: &str| ["||", "&&", ";"].contains(&word) || word.starts_with('#');
    if arguments.contains("${")
        || arguments.contains("  ")
        || arguments.split(' ').any(ends_command)
    {
        let expected =
            "nothing that iPXE would interpret: ${, ||, &&, ;, #, two consecutive spaces";
        return refuse("kernel_arguments", shown(&arguments), expected);
    }
    // A percent-encoded brace in a URL keeps iPXE from expanding it.
    let (kernel, initramfs) =
        (boot.kernel_url.replace("${", "$%7B"), boot.initramfs_url.replace("${", "$%7B"));
    Ok(format!(
        "#!ipxe\n\
         # Boots the live image of run-coreos-installer; made by run-coreos-installer live-config.\n\
         ifconf || goto failed\n\
         kernel --name vmlinuz {kernel} initrd=initramfs.img {arguments} || goto failed\n\
         initrd --name initramfs.img {initramfs} || goto failed\n\
         boot || goto failed\n\
         :failed\n\
         echo The live image could not be booted\n\
         shell\n"
    ))
}
