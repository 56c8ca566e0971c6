//! Everything that can be checked before the disk is touched.
//!
//! coreos-installer checks late: the Ignition config's digest, the network profiles and the kernel arguments
//! only after the whole image is written, the size of the disk never. So everything is checked here. Each
//! refusal has a code, and leaves the disk unchanged.

use std::borrow::Cow;
use std::path::Path;

use formats::command_line;
use formats::digest::Algorithm;
use probes::block::Disk;

use super::busy::check_not_busy;
use super::ignition_version::Newest;
use super::image::{self, Image};
use super::saved::Saved;
use super::site::Site;
use super::writers::coreos_installer::{self, Version};
use super::{
    Code, Failure, Order, Say, System, Term, Verify, first_boot, osmet, pointers, say, takedown,
};
use crate::clean;
use crate::http::Client;
use crate::secret;

/// The longest kernel argument, and the maximum total of all of them, in bytes.
const MAX_KARG_BYTES: usize = 1024;
/// The shortest command line that kernels cut at (`COMMAND_LINE_SIZE` of x86).
const MAX_KARGS_BYTES: usize = 2048;
/// The least memory that has to be available, in bytes.
///
/// coreos-installer streams the image and decompresses it: zstd accepts windows of up to 128 MiB unless asked
/// otherwise (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`), xz -9 needs 65 MiB (xz(1)). As much again is for coreos-installer
/// itself, gpg and the pages on their way to the disk. A live image that boots has more: Fedora CoreOS asks
/// for 2 GiB of RAM for a PXE boot (docs.fedoraproject.org, live-booting).
const MIN_AVAILABLE_BYTES: u64 = 256 << 20;

/// The bytes of an Ignition config, warnings for the result, and the result of its checks.
pub type Config = (Vec<u8>, Vec<String>, ignition::Checked);

/// Fetches the Ignition config and checks its digest, version and rules. Returns it.
///
/// # Errors
/// `IGNITION_FETCH`, `IGNITION_HASH`, `IGNITION_VERSION`, `IGNITION_INVALID`.
pub fn ignition(order: &Order, site: &Site, client: &Client) -> Result<Config, Failure> {
    let (source, newest) = (&order.ignition, Newest::of(order, site));
    let bytes: Cow<'_, [u8]> = match (&source.inline, &source.url) {
        (Some(text), _) => text.as_bytes().into(),
        (None, Some(url)) => {
            let unreachable = |message: String| {
                let what = format!("fetching the Ignition config: {message}");
                Failure::new(Code::IgnitionFetch, what)
                    .advise("make the config reachable from the node")
            };
            client.fetch_ignition(url, newest.minor).map_err(unreachable)?.into()
        }
        (None, None) => {
            let what = say![Term::Ignition, " has neither url nor inline"];
            return Err(Failure::new(Code::InstructionInvalid, what));
        }
    };
    if source.hash.as_deref().is_some_and(|hash| Algorithm::of(hash).is_none()) {
        let expected = " has another form, expected sha256-… or sha512-… in hexadecimal digits";
        return Err(Failure::new(Code::InstructionInvalid, say![Term::IgnitionHash, expected]));
    }
    let mut warnings = Vec::new();
    let refuse = |refusal: ignition::Refusal| {
        use ignition::Code as Why;
        let changed = "the config was changed in transit, or ";
        let (code, advice) = match refusal.code {
            Why::Hash => {
                let advice = say![changed, Term::IgnitionHash, " belongs to another config"];
                (Code::IgnitionHash, advice)
            }
            _ if refusal.is_within() => {
                let what = "correct what is served there; ignition-validate gives details";
                (Code::IgnitionInvalid, say![what, Term::OrSkipPointers])
            }
            Why::Version => (Code::IgnitionVersion, "give a config of spec 3.0.0 to 3.6.0".into()),
            Why::Invalid => {
                let advice = "correct the config; ignition-validate gives details";
                (Code::IgnitionInvalid, advice.into())
            }
        };
        Failure::new(code, refusal.to_string()).advise(advice)
    };
    let hash = source.hash.as_deref();
    let checked = hash.map_or(Ok(()), |hash| ignition::verify_hash(&bytes, hash)).and_then(|()| {
        if source.skip_pointers {
            return ignition::check(&bytes);
        }
        pointers::check(&bytes, newest.minor, client, &mut warnings)
    });
    // Errors of coreos-installer and of servers may quote it, and a refusal may too. Only now, since the check needs much
    // memory for a large config.
    secret::conceal_config(&bytes);
    let checked = checked.map_err(refuse)?;
    newest.check(&checked.version)?;
    warnings.extend(warnings_of(order, &checked));
    warnings.extend(first_boot::of_units(&bytes).filter(|_| order.reignite));
    Ok((bytes.into_owned(), warnings, checked))
}

/// Warnings about a config that is installed all the same.
fn warnings_of(order: &Order, checked: &ignition::Checked) -> Vec<String> {
    let source = &order.ignition;
    let of_config = checked.warnings.iter().take(64);
    let mut warnings: Vec<String> =
        of_config.map(|warning| format!("Ignition config: {warning}")).collect();
    if source.hash.is_none() && source.url.as_deref().is_some_and(|url| url.starts_with("http:")) {
        warnings.push("the Ignition config came over plain HTTP without a hash".into());
    }
    let arguments = order.append_kargs.iter().map(String::as_str);
    let first_boot = order.firstboot_args.iter().flat_map(|args| command_line::arguments(args));
    let arguments: Vec<&str> =
        arguments.chain(first_boot.map(|argument| argument.written)).collect();
    warnings.extend(first_boot::of_arguments(&arguments));
    let platform = order.platform.as_deref();
    // An installed system already has users.
    warnings.extend(first_boot::of_login(checked, platform).filter(|_| !order.reignite));
    warnings.extend(ignition::platform::network_warning(
        platform,
        checked.may_fetch,
        arguments.into_iter(),
    ));
    warnings
}

/// Checks everything else; the disk has been chosen and judged. Returns the version of coreos-installer, and the image if it is not
/// the live image's own. Warnings for the result are added.
///
/// # Errors
/// The first check that fails; the cheapest come first.
pub fn check(
    order: &Order,
    disk: &Disk,
    site: &Site,
    client: &Client,
    warnings: &mut Vec<String>,
) -> Result<(Version, Option<Image>), Failure> {
    let mut image = None;
    arguments(order)?;
    warnings.extend(order.platform.as_deref().and_then(ignition::platform::warning));
    warnings.extend(memory((site.available_memory_bytes)())?);
    let is_full = order.verify == Verify::Full;
    let version = coreos_installer::version(&site.installer, &site.system)?;
    if order.copy_network {
        network(&site.network_dir)?;
    }
    check_use(disk, &site.system, &[])?;
    match &order.image {
        Some(wanted) => {
            let found = image::check(wanted, disk, client, &site.system, warnings)?;
            if is_full && !found.head.is_readable() {
                return Err(unverifiable(&found));
            }
            image = Some(found);
        }
        None => warnings.extend(osmet::check(&site.osmet_dir, disk)?),
    }
    let given = order.image.as_ref().and_then(|image| image.uncompressed_bytes);
    let image_bytes = match &image {
        Some(image) => image.head.size_bytes.max(given),
        None => osmet::least_bytes(&site.osmet_dir),
    };
    if let Some(image_bytes) = image_bytes {
        Saved::parse(&order.save_partlabel, &order.save_partindex)?
            .check_beyond(disk, image_bytes)?;
    }
    // A server may take minutes to respond, during which another program may have started to use the disk.
    check_use(disk, &site.system, &[])?;
    Ok((version, image))
}

/// The whole disk could not be compared with the image, which would only be found out after the write.
fn unverifiable(image: &Image) -> Failure {
    let shown = image.source.shown();
    let what = say![Term::Verify, format!(" is full, but the agent cannot decompress {shown}")];
    let packed = ", or pack the image with xz, gzip or zstd and usual settings";
    Failure::new(Code::InstructionInvalid, what).advise(say![
        "set ",
        Term::Verify,
        " to sample",
        packed
    ])
}

/// Refuses a disk that is in use, unless the choice allowed taking down everything active on it, and that is possible, also
/// on the disks and partitions with the names `given_up`.
///
/// # Errors
/// `DISK_BUSY`, `TARGET_IO`.
pub fn check_use(disk: &Disk, system: &System, given_up: &[String]) -> Result<(), Failure> {
    if takedown::is_needed(disk) {
        return takedown::check(disk, system, given_up);
    }
    check_not_busy(disk, system)
}

/// Checks that there is enough memory for the whole install; returns a warning if that is unknown.
fn memory(available_bytes: Option<u64>) -> Result<Option<String>, Failure> {
    let unknown = "the kernel does not report the available memory; it was not checked";
    let Some(bytes) = available_bytes else { return Ok(Some(unknown.into())) };
    if has_memory(available_bytes) {
        return Ok(None);
    }
    let (found, least) = (bytes >> 20, MIN_AVAILABLE_BYTES >> 20);
    let what = format!("{found} MiB of memory are available, expected at least {least} MiB");
    Err(Failure::new(Code::MemoryLow, what)
        .advise("stop other programs on the live system, or boot it with more memory"))
}

/// True if there is enough memory for an install, or if its amount is unknown.
pub fn has_memory(available_bytes: Option<u64>) -> bool {
    available_bytes.is_none_or(|bytes| bytes >= MIN_AVAILABLE_BYTES)
}

/// Checks everything that ends up on a command line.
///
/// # Errors
/// `KARGS`; `INSTRUCTION_INVALID`.
pub fn arguments(order: &Order) -> Result<(), Failure> {
    let refuse = |what: Say| Err(Failure::advised(Code::Kargs, what));
    for (key, values) in [
        (Term::AppendKargs, &order.append_kargs),
        (Term::DeleteKargs, &order.delete_kargs),
        (Term::Console, &order.console),
    ] {
        for value in values {
            if !is_argument(value) {
                let expected = "one argument without blanks or control characters";
                return refuse(contains(key, value, expected));
            }
            // The kernel, and the proof with it, would read the arguments up to the next quote as one.
            if !value.matches('"').count().is_multiple_of(2) {
                return refuse(contains(key, value, "every double quote to be closed"));
            }
        }
        let n_bytes: usize = values.iter().map(|value| value.len() + 1).sum();
        if n_bytes > MAX_KARGS_BYTES {
            let length = format!(" is {n_bytes} bytes long, expected at most {MAX_KARGS_BYTES}");
            return refuse(say![key, length]);
        }
    }
    if let Some(platform) = &order.platform
        && !(platform.len() <= 64
            && !platform.is_empty()
            && platform.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'))
    {
        let found = clean::quoted(platform, 100);
        return refuse(say![Term::Platform, " is ", found, ", expected a name such as metal"]);
    }
    // The arguments end up between single quotes in a file that GRUB reads.
    if let Some(args) = &order.firstboot_args
        && (args.len() > MAX_KARGS_BYTES
            || args.chars().any(|c| c.is_control() || matches!(c, '\'' | '"' | '\\' | '$')))
    {
        let expected = ", expected arguments without quotes or control characters";
        let found = clean::quoted(args, 100);
        return refuse(say![Term::FirstbootArgs, " is ", found, expected]);
    }
    saved_partitions(order)
}

/// Checks the labels and numbers of the partitions to keep.
fn saved_partitions(order: &Order) -> Result<(), Failure> {
    for (key, values) in
        [(Term::SavePartlabel, &order.save_partlabel), (Term::SavePartindex, &order.save_partindex)]
    {
        let is_bad = |value: &&String| {
            value.is_empty() || value.len() > 256 || value.chars().any(char::is_control)
        };
        if let Some(bad) = values.iter().find(is_bad) {
            let what = contains(key, bad, "printable text of at most 256 bytes");
            return Err(Failure::new(Code::InstructionInvalid, what));
        }
    }
    if let Some(bad) = order.save_partindex.iter().find(|value| !is_index(value)) {
        let what = contains(Term::SavePartindex, bad, "numbers and ranges such as 5 or 5-7");
        return Err(Failure::new(Code::InstructionInvalid, what));
    }
    Ok(())
}

fn contains(key: Term, value: &str, expected: &'static str) -> Say {
    say![key, " contains ", clean::quoted(value, 100), ", expected ", expected]
}

fn is_argument(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_KARG_BYTES
        && !text.starts_with('-')
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn is_index(text: &str) -> bool {
    text.split(',').all(|range| {
        range.bytes().any(|b| b.is_ascii_digit())
            && range.bytes().all(|b| b.is_ascii_digit() || b == b'-')
            && range.matches('-').count() <= 1
    })
}

/// Checks that there are network profiles to copy.
fn network(dir: &Path) -> Result<(), Failure> {
    let why = match has_profiles(dir) {
        Ok(true) => return Ok(()),
        Ok(false) => format!("{} contains no profile", dir.display()),
        Err(error) => format!("reading {}: {error}", dir.display()),
    };
    Err(Failure::advised(Code::Network, say![Term::CopyNetwork, ": ", why]))
}

/// True if there are network profiles to copy.
///
/// # Errors
/// The directory cannot be read.
pub fn has_profiles(dir: &Path) -> std::io::Result<bool> {
    let entries = std::fs::read_dir(dir)?;
    Ok(entries.flatten().take(10_000).any(|entry| entry.path().is_file()))
}

#[cfg(test)]
mod tests;
