//! One pass of the image from its source to coreos-installer, with every check that only the whole stream allows.
//!
//! coreos-installer writes the first MiB, and with it the partition table, only after the stream has ended well. So
//! the last block is held back until length and digests are right; if they are not, the stream breaks, and the disk
//! is left without a table.

use formats::digest::{Algorithm, Hasher};

use super::RECORD_LIMIT;
use super::meter::Meter;
use super::server::Body;
use super::source::{Fault, Reader};
use super::tee::Tee;
use crate::act::Code;
use crate::act::image::Image;
use crate::signals::Stop;

/// Number of bytes passed on at once; as many are held back.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// Digest and size of an image.
pub(super) type Whole = (String, u64);

/// One pass.
pub(super) struct Pass<'a> {
    pub(super) image: &'a Image,
    pub(super) meter: &'a Meter,
    pub(super) tee: Option<Tee>,
    n_bytes: u64,
    hashers: Vec<(Hasher, Option<&'a str>)>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(image: &'a Image, meter: &'a Meter, tee: Option<Tee>) -> Self {
        let mut hashers: Vec<_> = image
            .digests
            .iter()
            .filter_map(|digest| Some((Hasher::for_digest(digest)?, Some(digest.as_str()))))
            .collect();
        if hashers.is_empty() {
            hashers.push((Hasher::new(Algorithm::Sha256), None));
        }
        Self { image, meter, tee, n_bytes: 0, hashers }
    }

    /// Passes the image on; `None` if the receiver did not wait for its end. `reader` was just opened, and the size that it
    /// reports was passed on already.
    ///
    /// # Errors
    /// Something is wrong with the image; its last block was not passed on.
    pub(super) fn run(
        &mut self,
        reader: &mut Reader<'_>,
        body: &mut Body<'_>,
    ) -> Result<Option<Whole>, Fault> {
        let mut held = Vec::with_capacity(BLOCK_BYTES);
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let n = self.read_block(reader, &mut block)?;
            if n == 0 {
                break;
            }
            if body.write(&held).is_err() {
                return Ok(None);
            }
            held.clear();
            held.extend_from_slice(&block[..n]);
        }
        self.meter.stop();
        let digest = self.check_end()?;
        if body.write(&held).is_err() {
            return Ok(None);
        }
        if let Some(tee) = &mut self.tee {
            tee.end();
        }
        Ok(Some((digest, self.n_bytes)))
    }

    /// Reads a block, full unless the image ends, and records it.
    fn read_block(&mut self, reader: &mut Reader<'_>, block: &mut [u8]) -> Result<usize, Fault> {
        let mut n = 0;
        while n < block.len() {
            self.meter.wait();
            let more = reader.read(&mut block[n..])?;
            if more == 0 {
                break;
            }
            self.meter.add(more);
            n += more;
        }
        let bytes = &block[..n];
        self.check_head(bytes)?;
        self.n_bytes += n as u64;
        for (hasher, _) in &mut self.hashers {
            hasher.update(bytes);
        }
        if let Some(tee) = &mut self.tee
            && n > 0
        {
            tee.feed(bytes);
        }
        Ok(n)
    }

    /// Compares the beginning with what preflight has seen.
    fn check_head(&self, bytes: &[u8]) -> Result<(), Fault> {
        let seen = &self.image.head.packed;
        let at = usize::try_from(self.n_bytes).unwrap_or(usize::MAX);
        let rest = seen.get(at..).unwrap_or_default();
        let n = rest.len().min(bytes.len());
        // A shorter block is the last one.
        if bytes[..n] == rest[..n] && (n == rest.len() || bytes.len() == BLOCK_BYTES) {
            return Ok(());
        }
        let message = format!("{} is no longer the image that was checked", self.shown());
        Err(Fault::new(Code::ImageChanged, message))
    }

    /// Checks length and digests; returns the digest for the result.
    fn check_end(&mut self) -> Result<String, Fault> {
        if let Some(least) = self.image.head.least_bytes()
            && self.n_bytes < least
        {
            let (shown, n_bytes) = (self.shown(), self.n_bytes);
            let message = format!(
                "{shown} ended after {n_bytes} bytes, but its partition table is for {least} bytes"
            );
            return Err(Fault::new(Code::ImageTruncated, message));
        }
        let mut digest = String::new();
        for (hasher, expected) in std::mem::take(&mut self.hashers) {
            let found = hasher.finish();
            if let Some(expected) = expected
                && !found.eq_ignore_ascii_case(expected)
            {
                let (shown, n_bytes) = (self.shown(), self.n_bytes);
                let message = format!(
                    "the digest of {shown} is {found} after {n_bytes} bytes, expected {expected}"
                );
                return Err(Fault::new(Code::ImageHash, message));
            }
            digest = found;
        }
        // Without the digests of every block the proof would fail, after the disk was written.
        // A signal need not end this wait: coreos-installer is ended by another thread.
        let stop = Stop::default();
        if let Some(Err(why)) = self.tee.as_mut().map(|tee| tee.check(RECORD_LIMIT, &stop)) {
            let message = format!(
                "{} could not be decompressed to its end to compare it with the disk: {why}; a sample does without",
                self.shown()
            );
            return Err(Fault::new(Code::ImageInvalid, message));
        }
        Ok(digest)
    }

    fn shown(&self) -> String {
        self.image.source.shown()
    }
}
