//! The image of one install: where it comes from, and every check before the disk is touched.

mod decode;
mod file;
mod head;
mod kind;
mod metadata;

use std::path::PathBuf;

use probes::block::Disk;

use super::stream_facts::StreamFacts;
use super::{Code, Failure, ImageSource, Say, System, Term, WrittenImage, describe, say};
use crate::clean;
use crate::http::Client;
use crate::secret::redact;

pub use decode::Format;
pub(super) use decode::decoder;
pub(super) use file::open as open_file;
pub use head::Head;

/// The largest signature, in bytes; GPG's have less than 1 KiB.
const MAX_SIGNATURE_BYTES: u64 = 64 * 1024;

/// The location of an image's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// On a server.
    Url(String),
    /// On the live system: a regular file or a block device.
    File(PathBuf),
}

impl Source {
    /// Address or path, without user and query.
    pub fn shown(&self) -> String {
        match self {
            Self::Url(url) => redact(url),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// An image that passed preflight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its location.
    pub source: Source,
    /// Its detached GPG signature, which coreos-installer verifies.
    pub signature: Option<Vec<u8>>,
    /// Digests that its stored bytes must have.
    pub digests: Vec<String>,
    /// True if it may be installed without a signature.
    pub is_insecure: bool,
    /// Its beginning. The bytes that are written must begin with the same ones.
    pub head: Head,
}

impl Image {
    /// True if its content is verified at its end, by a digest or by its signature.
    pub fn is_verified(&self) -> bool {
        !self.digests.is_empty() || (self.signature.is_some() && !self.is_insecure)
    }

    /// The image as the result reports it; `facts` are there if all of it was passed on.
    pub fn written(&self, facts: Option<&StreamFacts>) -> WrittenImage {
        WrittenImage {
            source: self.source.shown(),
            digest: facts.map(|facts| facts.digest.clone()),
            size_bytes: facts.map(|facts| facts.n_bytes),
        }
    }
}

/// Checks that the image exists, is signed (unless `insecure`), and fits the disk.
///
/// # Errors
/// `IMAGE_FETCH`, `IMAGE_HASH`, `IMAGE_INVALID`, `IMAGE_TRUNCATED`, `SIGNATURE`, `SECTOR_SIZE`, `DISK_TOO_SMALL`.
pub fn check(
    wanted: &ImageSource,
    disk: &Disk,
    client: &Client,
    system: &System,
    warnings: &mut Vec<String>,
) -> Result<Image, Failure> {
    let (source, signature, digests) = locate(wanted, disk, client)?;
    let head = match &source {
        Source::Url(url) => {
            let head = client.fetch_image_head(url).map_err(|message| unreachable(&message))?;
            Head::new(head.body, head.total_bytes)
        }
        Source::File(path) => file::head(path, disk, system)?,
    };
    check_kind(&source, &head)?;
    check_fit(wanted, &head, disk, warnings)?;
    let is_insecure = wanted.insecure;
    let signature = self::signature(&signature, client, is_insecure)?;
    let is_plain = matches!(&source, Source::Url(url) if url.starts_with("http:"));
    if signature.is_none() && digests.is_empty() && is_plain {
        let warning = "the image comes over plain HTTP without a signature and without a hash";
        warnings.push(warning.into());
    }
    Ok(Image { source, signature, digests, is_insecure, head })
}

fn unreachable(message: &str) -> Failure {
    Failure::advised(Code::ImageFetch, format!("checking the image: {message}"))
}

/// Finds out where the image and its signature are, and which digests it must have.
fn locate(
    wanted: &ImageSource,
    disk: &Disk,
    client: &Client,
) -> Result<(Source, Source, Vec<String>), Failure> {
    let (source, signature, mut digests) = match (&wanted.url, &wanted.file, &wanted.stream) {
        (Some(url), None, None) => {
            (Source::Url(url.clone()), Source::Url(signature_address(url)), Vec::new())
        }
        (None, Some(file), None) => {
            (Source::File(file.into()), Source::File(format!("{file}.sig").into()), Vec::new())
        }
        (None, None, Some(stream)) => {
            let sector_bytes = wanted.sector_bytes.or(disk.logical_block_bytes.map(u64::from));
            let found = metadata::fetch(stream, sector_bytes, client)?;
            let signature = found.signature.unwrap_or_else(|| signature_address(&found.location));
            (Source::Url(found.location), Source::Url(signature), vec![found.digest])
        }
        _ => {
            let message = say![Term::Image, " needs exactly one of url, file and stream"];
            return Err(Failure::new(Code::InstructionInvalid, message));
        }
    };
    if let Some(digest) = &wanted.hash {
        if formats::digest::Algorithm::of(digest).is_none() {
            let found = clean::quoted(digest, 100);
            let message =
                say![Term::ImageHashKey, " is ", found, ", expected sha256-… or sha512-…"];
            return Err(Failure::new(Code::ImageHash, message));
        }
        if !digests.iter().any(|other| other.eq_ignore_ascii_case(digest)) {
            digests.push(digest.clone());
        }
    }
    Ok((source, signature, digests))
}

/// The address of the signature: next to the path, as coreos-installer looks for it, and not after the query.
fn signature_address(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (path, rest) = url.split_at(end);
    format!("{path}.sig{rest}")
}

/// Checks that the image is one of a disk, and not larger than its table says.
fn check_kind(source: &Source, head: &Head) -> Result<(), Failure> {
    let shown = source.shown();
    if let Some((code, found)) = kind::not_a_disk(head) {
        let expected = "expected a raw disk image with a GPT, perhaps packed by xz, gzip or zstd";
        return Err(Failure::advised(code, format!("{shown} is {found}, {expected}")));
    }
    // The device that contains an image may be larger.
    let is_device = matches!(source, Source::File(path) if path.starts_with("/dev"));
    if let (Some(table), Some(found)) = (head.least_bytes(), head.total_bytes)
        && found > table
        && !is_device
    {
        let what =
            format!("{shown} has {found} bytes, but its partition table is for {table} bytes");
        return Err(Failure::advised(Code::ImageInvalid, what));
    }
    Ok(())
}

/// Checks the size and the sector size of the image.
fn check_fit(
    wanted: &ImageSource,
    head: &Head,
    disk: &Disk,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    if let (Some(least), Some(found)) = (head.least_bytes(), head.total_bytes)
        && found < least
    {
        let what =
            format!("the image has {found} bytes, but its partition table is for {least} bytes");
        return Err(Failure::advised(Code::ImageTruncated, what));
    }
    match wanted.uncompressed_bytes.max(head.size_bytes) {
        Some(size_bytes) => check_size(disk, size_bytes, "the image")?,
        None => warnings
            .push("the size of the image is unknown, so it was not compared with the disk".into()),
    }
    for (sector_bytes, who) in
        [(wanted.sector_bytes, Term::Order.into()), (head.sector_bytes, Say::from("the image"))]
    {
        if let (Some(wanted), Some(found)) = (sector_bytes, disk.logical_block_bytes.map(u64::from))
            && wanted != found
        {
            let what = format!(" is for sectors of {wanted} bytes, {} has {found}", disk.device);
            return Err(Failure::advised(Code::SectorSize, say![who, what]));
        }
    }
    Ok(())
}

/// Checks that an image of this size fits on the disk.
pub(super) fn check_size(disk: &Disk, size_bytes: u64, image: &str) -> Result<(), Failure> {
    if disk.size_bytes.is_some_and(|found| size_bytes <= found) {
        return Ok(());
    }
    let what = format!("{} is smaller than {image} of {size_bytes} bytes", describe(disk));
    Err(Failure::advised(Code::DiskTooSmall, what))
}

/// The signature; without one the image is refused, unless it may be insecure.
fn signature(
    source: &Source,
    client: &Client,
    is_insecure: bool,
) -> Result<Option<Vec<u8>>, Failure> {
    let found = match source {
        Source::Url(url) => {
            client.fetch_if_present("looking for the signature", url, MAX_SIGNATURE_BYTES)
        }
        Source::File(path) => file::if_present(path, MAX_SIGNATURE_BYTES),
    };
    match found {
        Ok(Some(bytes)) if !bytes.is_empty() => Ok(Some(bytes)),
        _ if is_insecure => Ok(None),
        Ok(_) => {
            let what = format!("the image has no signature at {}", source.shown());
            Err(Failure::advised(Code::Signature, what))
        }
        Err(message) => Err(unreachable(&message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_next_to_the_path_and_not_after_the_query() {
        for (url, expected) in [
            ("http://h/a.raw.xz", "http://h/a.raw.xz.sig"),
            ("http://h/a.raw?token=x/y", "http://h/a.raw.sig?token=x/y"),
            ("http://h/a.raw#part", "http://h/a.raw.sig#part"),
        ] {
            assert_eq!(signature_address(url), expected);
        }
    }
}
