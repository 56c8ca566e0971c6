//! Reads the bytes of an image, from a server or from a file, and classifies an early end.

use std::fs::File;
use std::io::Read as _;

use crate::act::image::{self, Source};
use crate::act::{Code, Failure, Say};
use crate::http::Client;
use crate::http::download::{Broken, Cause, Download};

/// The cause of a broken stream, and whether reading the image once more may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The failure as the result reports it.
    pub failure: Failure,
    /// True if another try can help.
    pub is_transient: bool,
}

impl Fault {
    pub(super) fn new(code: Code, message: impl Into<Say>) -> Self {
        let failure = Failure::advised(code, message);
        Self { failure, is_transient: false }
    }
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        let code = match broken.cause {
            Cause::Unreachable => Code::ImageFetch,
            Cause::Status(status) => Code::Http(status),
            Cause::Stalled => Code::ImageStalled,
            Cause::Truncated => Code::ImageTruncated,
            Cause::Changed => Code::ImageChanged,
            Cause::Stopped => Code::Interrupted,
        };
        Self { is_transient: broken.is_transient, ..Self::new(code, broken.message) }
    }
}

/// An image that is being read.
pub(super) enum Reader<'a> {
    Server(Box<Download<'a>>),
    File { file: File, name: String, total_bytes: u64, n_bytes: u64 },
}

impl<'a> Reader<'a> {
    /// Opens the image; waits for a server that does not respond.
    pub(super) fn open(
        source: &Source,
        client: &'a Client,
        is_verified: bool,
        is_cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Self, Fault> {
        match source {
            Source::Url(url) => {
                let download = client.download(url, is_verified, is_cancelled)?;
                Ok(Self::Server(Box::new(download)))
            }
            Source::File(path) => {
                let name = path.display().to_string();
                let (file, total_bytes) = image::open_file(path)
                    .map_err(|error| lost(&name, &format!("opening it: {error}")))?;
                Ok(Self::File { file, name, total_bytes, n_bytes: 0 })
            }
        }
    }

    /// Size of the stored image in bytes, if the source reports it.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Server(download) => download.total_bytes(),
            Self::File { total_bytes, .. } => Some(*total_bytes),
        }
    }

    /// Reads more; 0 bytes at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        match self {
            Self::Server(download) => Ok(download.read(buffer)?),
            Self::File { file, name, total_bytes, n_bytes } => {
                let n = file
                    .read(buffer)
                    .map_err(|error| lost(name, &format!("reading it: {error}")))?;
                *n_bytes += n as u64;
                if n == 0 && *n_bytes < *total_bytes {
                    let message = format!("{name} ended after {n_bytes} of {total_bytes} bytes");
                    return Err(Fault::new(Code::ImageTruncated, message));
                }
                Ok(n)
            }
        }
    }
}

fn lost(name: &str, what: &str) -> Fault {
    Fault::new(Code::MediumLost, format!("the image {name}: {what}"))
}
