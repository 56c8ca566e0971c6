//! Decompresses a copy of the stream on a thread of its own, and digests blocks of it for the proof: all of it for
//! `verify: full`, otherwise a sample.
//!
//! The thread must not slow the stream down: if it falls behind, a sample ends early, and only a full record makes the
//! stream wait. Memory is bounded by the queue, the decoder's window and the record: 48 bytes a MiB, and 24 MiB for `boot`.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use formats::gpt::Partition;
use probes::guard;
use sha2::{Digest as _, Sha256};
use tracing::{debug, warn};

use crate::act::image::{Format, Head, decoder};
use crate::act::record::{self, Record, fill};
use crate::act::stream_facts::Sample;
use crate::act::{Verify, spread};
use crate::ask::{GRACE, Unanswered, receive_within};
use crate::clock::{Clock as _, RealClock};
use crate::signals::Stop;

/// Block of a sample, in bytes.
const SAMPLE_BYTES: usize = 64 << 10;
/// One part in this many of a compressed image is sampled: its beginning, which is all that can be reached without
/// decompressing the rest.
const BEGINNING_PARTS: u64 = 16;
/// Length of the beginning of an image whose size is unknown.
const UNKNOWN_BYTES: u64 = 256 << 20;
/// Number of blocks that are sampled, in addition to the beginning of each partition.
const N_SAMPLES: u64 = 256;
/// Maximum number of stream pieces that wait for the thread.
const QUEUE: usize = 64;
/// Interval at which a full queue is tried again.
const QUEUE_TICK: Duration = Duration::from_millis(1);
/// Stack of the thread.
const STACK_BYTES: usize = 1 << 20;

/// The blocks to digest.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    /// All, of an image with these partitions.
    All(Vec<Partition>),
    /// These numbers.
    These(BTreeSet<u64>),
    /// Every block of the first bytes.
    Beginning(u64),
}

impl Plan {
    fn new(verify: Verify, head: &Head) -> Self {
        let block = SAMPLE_BYTES as u64;
        match head.size_bytes {
            _ if verify == Verify::Full => Self::All(head.partitions.clone()),
            None => Self::Beginning(UNKNOWN_BYTES),
            Some(size_bytes) if head.format != Format::Raw => {
                Self::Beginning((size_bytes / BEGINNING_PARTS).next_multiple_of(block))
            }
            Some(size_bytes) => {
                let n_blocks = size_bytes.div_ceil(block).max(1);
                let starts = head.partitions.iter().map(|part| part.start_bytes / block);
                Self::These(spread(n_blocks, N_SAMPLES).chain(starts).collect())
            }
        }
    }

    fn wants(&self, number: u64) -> bool {
        match self {
            Self::These(numbers) => numbers.contains(&number),
            Self::Beginning(_) => true,
            Self::All(_) => false,
        }
    }
}

/// A piece of the stream; the last one is empty. Without it the stream broke off.
type Piece = Arc<[u8]>;

/// The thread, and the way to it.
#[derive(Debug)]
pub(super) struct Tee {
    pieces: Option<SyncSender<Piece>>,
    record: Receiver<Result<Record, guard::Panic>>,
    waits: bool,
    /// Number of reads of the thread.
    n_reads: Arc<AtomicU64>,
    /// The record, once it was received.
    kept: Option<Record>,
}

impl Tee {
    /// Starts the thread; `None` if there is none to be had.
    pub(super) fn start(verify: Verify, head: &Head) -> Option<Self> {
        // On a single CPU even a part would be felt.
        let n_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if n_cpus == 1 && verify == Verify::Sample && head.format != Format::Raw {
            return None;
        }
        let plan = Plan::new(verify, head);
        let (pieces, queue) = sync_channel(QUEUE);
        let n_reads = Arc::<AtomicU64>::default();
        let stream = Pieces { queue, current: Arc::new([]), at: 0, n_reads: Arc::clone(&n_reads) };
        let work = move || record(stream, &plan);
        match guard::ask("image-check", STACK_BYTES, work) {
            Ok(record) => {
                let waits = verify == Verify::Full;
                Some(Self { pieces: Some(pieces), record, waits, n_reads, kept: None })
            }
            Err(error) => {
                let why = format!("no thread could be started: {error}");
                warn!("the image cannot be recorded for the proof: {why}");
                None
            }
        }
    }

    /// Hands over a piece of the stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let Some(pieces) = &self.pieces else { return };
        let piece: Piece = bytes.into();
        if self.waits {
            return self.hand_over(piece);
        }
        if let Err(error) = pieces.try_send(piece) {
            if matches!(error, TrySendError::Full(_)) {
                debug!("decompressing the image for the proof is too slow; the sample ends here");
            }
            self.pieces = None;
        }
    }

    /// Waits until the thread takes a piece. It ends early if the image cannot be decompressed, and reads no more after a
    /// crash, which leaves the queue open.
    fn hand_over(&mut self, mut piece: Piece) {
        while let Some(pieces) = &self.pieces {
            match pieces.try_send(piece) {
                Ok(()) => return,
                Err(TrySendError::Full(back)) => piece = back,
                Err(TrySendError::Disconnected(_)) => return self.pieces = None,
            }
            if let Ok(record) = self.record.try_recv() {
                self.kept = Some(record.unwrap_or_default());
                self.pieces = None;
            }
            RealClock.pause(QUEUE_TICK);
        }
    }

    /// The stream has ended well.
    pub(super) fn end(&mut self) {
        self.hand_over(Arc::new([]));
        self.pieces = None;
    }

    /// Checks that a full record, if one is needed, reaches the end of the image. The stream must have ended.
    ///
    /// # Errors
    /// The reason, as the decoder gives it.
    pub(super) fn check(&mut self, limit: Duration, stop: &Stop) -> Result<(), String> {
        if !self.waits {
            return Ok(());
        }
        self.end();
        let record = self.record(limit, stop);
        let is_whole = record.image_bytes.is_some();
        let fault = record.fault.clone().unwrap_or_else(|| "it took too long".into());
        self.kept = Some(record);
        if is_whole { Ok(()) } else { Err(fault) }
    }

    /// Returns the thread's results once it has finished; waits as long as it goes on within `limit`.
    pub(super) fn record(&mut self, limit: Duration, stop: &Stop) -> Record {
        if let Some(record) = self.kept.take() {
            return record;
        }
        loop {
            let n_before = self.n_reads.load(Ordering::Relaxed);
            match receive_within(&RealClock, &self.record, (limit, GRACE), stop) {
                Ok(record) => return record,
                // A few pieces may be many GiB of zeros.
                Err(Unanswered::Late(_)) if self.n_reads.load(Ordering::Relaxed) > n_before => {}
                Err(why) => {
                    warn!("the image cannot be compared with the disk: {why}");
                    return Record::default();
                }
            }
        }
    }
}

/// The stream as the thread reads it.
struct Pieces {
    queue: Receiver<Piece>,
    current: Piece,
    at: usize,
    n_reads: Arc<AtomicU64>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            // The end is an empty piece.
            self.current = self.queue.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            self.at = 0;
        }
        self.n_reads.fetch_add(1, Ordering::Relaxed);
        let n = buffer.len().min(self.current.len() - self.at);
        buffer[..n].copy_from_slice(&self.current[self.at..][..n]);
        self.at += n;
        Ok(n)
    }
}

/// Decompresses `packed` and digests the blocks of the plan.
fn record(packed: impl Read + Send, plan: &Plan) -> Record {
    let mut record = Record::default();
    let outcome = if let Plan::All(partitions) = plan {
        decoder(packed).and_then(|mut image| record::whole(&mut image, partitions, &mut record))
    } else {
        sample(packed, plan, &mut record)
    };
    if let Err(error) = outcome {
        debug!(%error, "the image was not decompressed to its end");
        record.fault = Some(error.to_string());
    }
    record
}

fn sample(packed: impl Read + Send, plan: &Plan, record: &mut Record) -> io::Result<()> {
    let limit = if let Plan::Beginning(n_bytes) = plan { *n_bytes } else { u64::MAX };
    let mut image = decoder(packed)?.take(limit);
    let mut block = vec![0; SAMPLE_BYTES];
    for number in 0.. {
        let n = fill(&mut image, &mut block)?;
        if n > 0 && plan.wants(number) {
            let offset = number * SAMPLE_BYTES as u64;
            let sha256 = Sha256::digest(&block[..n]).into();
            record.samples.push(Sample { offset, n_bytes: n, sha256 });
        }
        if n < block.len() {
            let end = number * SAMPLE_BYTES as u64 + n as u64;
            record.image_bytes = (end < limit).then_some(end);
            record.is_complete = true;
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image in which no two blocks are the same.
    fn image(n_bytes: usize) -> Vec<u8> {
        let numbers = (0_u32..).flat_map(u32::to_le_bytes);
        numbers.take(n_bytes).collect()
    }

    fn record_of(verify: Verify, image: &[u8], n_piece: usize) -> Record {
        let head = Head::new(image[..4096].to_vec(), Some(image.len() as u64));
        let mut tee = Tee::start(verify, &head).unwrap();
        // Hands over no more than the queue holds, so that the thread cannot fall behind.
        for piece in image.chunks(n_piece) {
            tee.feed(piece);
        }
        tee.end();
        tee.record(Duration::from_mins(1), &Stop::default())
    }

    #[test]
    fn every_digest_is_of_the_block_at_its_offset() {
        let image = image((20 << 20) + 5);
        for (verify, block_bytes, n) in
            [(Verify::Full, 1 << 20, 21), (Verify::Sample, 64 << 10, 256)]
        {
            let record = record_of(verify, &image, 1 << 20);
            assert_eq!(record.image_bytes, Some(image.len() as u64));
            assert_eq!(record.samples.len(), n);
            for sample in &record.samples {
                let start = usize::try_from(sample.offset).unwrap();
                let end = (start + block_bytes).min(image.len());
                assert_eq!(sample.n_bytes, end - start);
                assert_eq!(sample.sha256, <[u8; 32]>::from(Sha256::digest(&image[start..end])));
            }
            let offsets: Vec<u64> = record.samples.iter().map(|sample| sample.offset).collect();
            assert!(offsets.is_sorted() && offsets[0] == 0, "{offsets:?}");
            assert_eq!(offsets.last(), Some(&(20 << 20)), "the end of the image is sampled");
        }
    }

    #[test]
    fn sample_of_a_compressed_image_is_its_beginning_and_no_whole() {
        let image = image(4 << 20);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut encoder, &image).unwrap();
        let packed = encoder.finish().unwrap();
        let head = Head { size_bytes: Some(4 << 20), ..Head::new(packed.clone(), None) };
        let plan = Plan::new(Verify::Sample, &head);
        let record = super::record(&packed[..], &plan);
        assert_eq!((record.samples.len(), record.image_bytes), (4, None));
        assert!(record.is_complete);
    }

    #[test]
    fn sample_that_falls_behind_ends_early_and_blocks_nobody() {
        let (pieces, queue) = sync_channel(1);
        let (_open, record) = std::sync::mpsc::channel();
        let mut tee =
            Tee { pieces: Some(pieces), record, waits: false, n_reads: Arc::default(), kept: None };
        for _ in 0..100 {
            tee.feed(b"piece");
        }
        assert!(tee.pieces.is_none(), "the sample has ended");
        let plan = Plan::Beginning(1 << 20);
        let record = super::record(
            Pieces { queue, current: Arc::new([]), at: 0, n_reads: Arc::default() },
            &plan,
        );
        assert_eq!((record.samples.len(), record.image_bytes), (0, None), "shorter than a magic");
    }

    #[test]
    fn full_record_of_a_thread_that_crashed_does_not_block_the_stream() {
        let (pieces, _queue) = sync_channel(1);
        let (crashed, record) = std::sync::mpsc::channel();
        let mut tee =
            Tee { pieces: Some(pieces), record, waits: true, n_reads: Arc::default(), kept: None };
        crashed.send(Err("a bug".into())).unwrap();
        for _ in 0..3 {
            tee.feed(b"piece");
        }
        assert!(tee.check(Duration::from_mins(1), &Stop::default()).is_err());
    }

    #[test]
    fn stream_that_breaks_off_has_no_size() {
        let head = Head::new(vec![0; 4096], None);
        let mut tee = Tee::start(Verify::Sample, &head).unwrap();
        tee.feed(&vec![7; 200_000]);
        tee.pieces = None;
        let record = tee.record(Duration::from_mins(1), &Stop::default());
        assert_eq!(record.image_bytes, None);
        assert_eq!(record.samples.len(), 3);
    }
}
