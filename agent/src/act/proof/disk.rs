//! Bounded reads of a disk: a window never leaves its partition, and a budget stops endless reads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use formats::ext4;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};

/// Maximum number of bytes read from one disk; structures that refer to each other in a circle end here.
const BUDGET_BYTES: u64 = 2 << 30;
/// The least that a read costs, however short it is: some two million of them are granted.
const LEAST_COST_BYTES: u64 = 1 << 10;

/// Length of one read, in bytes.
const CHUNK_BYTES: u64 = 64 << 10;
/// Maximum number of chunks that are kept.
const MAX_CHUNKS: usize = 64;
/// The largest block of a disk, in bytes.
const ALIGNMENT: usize = 4096;

/// A source of bytes at offsets.
pub trait ReadAt {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The source is too short, or cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String>;

    /// The next `n_bytes` from `offset` on.
    ///
    /// # Errors
    /// As for [`ReadAt::read_at`].
    fn bytes_at(&mut self, offset: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; n_bytes];
        self.read_at(offset, &mut bytes).map(|()| bytes)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.get(start..end))
            .ok_or_else(|| format!("the data ends before offset {offset}"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// A disk that is open for reading.
#[derive(Debug, Clone)]
pub struct Disk {
    file: Arc<File>,
    bytes_left: Arc<AtomicU64>,
    chunks: Arc<Mutex<VecDeque<Chunk>>>,
}

/// A piece of the disk that was read, with its number.
type Chunk = (u64, Arc<[u8]>);

impl Disk {
    /// Opens a disk that was not written, for reading. Nothing of its page cache is written or dropped.
    ///
    /// # Errors
    /// A message if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file =
            File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?;
        Ok(Self::cached(Arc::new(file)))
    }

    /// The disk that was written, whose pages are dropped from the page cache, so that reads come from the medium.
    pub fn of(file: Arc<File>) -> Self {
        // Otherwise the page cache that coreos-installer filled could be read instead of the disk.
        file.sync_all().ok();
        posix_fadvise(&*file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
        Self::cached(file)
    }

    /// An open disk that was not written.
    pub(in crate::act) fn cached(file: Arc<File>) -> Self {
        Self { file, bytes_left: Arc::new(AtomicU64::new(BUDGET_BYTES)), chunks: Arc::default() }
    }

    /// The same disk with a budget of its own, for this many bytes more than usual.
    pub fn with_budget(self, n_bytes: u64) -> Self {
        let bytes_left = Arc::new(AtomicU64::new(BUDGET_BYTES.saturating_add(n_bytes)));
        Self { bytes_left, ..self }
    }

    /// Returns its `fstat(2)` metadata.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    /// The size of the disk in bytes.
    ///
    /// # Errors
    /// A message if the kernel does not report it.
    pub fn size(&self) -> Result<u64, String> {
        // The metadata of a block device has no size.
        (&*self.file).seek(SeekFrom::End(0)).map_err(|error| format!("seeking to the end: {error}"))
    }

    /// A part of the disk.
    ///
    /// # Errors
    /// The part is empty or does not fit into 64 bits.
    pub fn window(&self, start: u64, size: u64) -> Result<Window, String> {
        if size == 0 || start.checked_add(size).is_none() {
            return Err(format!("a part of {size} bytes at {start}"));
        }
        Ok(Window { disk: self.clone(), start, size, position: 0 })
    }

    /// Reads `n_bytes` in one piece, from an offset that is a multiple of the largest block of a disk.
    ///
    /// # Errors
    /// As for [`ReadAt::read_at`].
    pub fn block(&self, offset: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
        let read = || {
            self.spend(n_bytes)?;
            let mut bytes = self.read_aligned(offset, n_bytes.next_multiple_of(ALIGNMENT))?;
            bytes.truncate(n_bytes);
            if bytes.len() < n_bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
        };
        read().map_err(|error: io::Error| format!("reading at {offset}: {error}"))
    }

    fn spend(&self, n_bytes: usize) -> io::Result<()> {
        let cost = LEAST_COST_BYTES.max(n_bytes as u64);
        let spend = |left: u64| left.checked_sub(cost);
        if self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
            return Err(io::Error::other(
                "read limit exceeded: the disk's structures refer to each other in a circle",
            ));
        }
        Ok(())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.spend(buffer.len())?;
        let mut done = 0;
        while done < buffer.len() {
            let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            let chunk = self.chunk(at / CHUNK_BYTES)?;
            let start = usize::try_from(at % CHUNK_BYTES).unwrap_or_default();
            let found = chunk.get(start..).unwrap_or_default();
            let n = found.len().min(buffer.len() - done);
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[done..done + n].copy_from_slice(&found[..n]);
            done += n;
        }
        Ok(())
    }

    /// A chunk of the disk. The readers of file systems read a few bytes at a time; without chunks each would be a read
    /// of the disk.
    fn chunk(&self, number: u64) -> io::Result<Arc<[u8]>> {
        let lock = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, chunk)) = lock().iter().find(|(known, _)| *known == number) {
            return Ok(Arc::clone(chunk));
        }
        let offset = number.checked_mul(CHUNK_BYTES).ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = usize::try_from(CHUNK_BYTES).unwrap_or_default();
        let chunk: Arc<[u8]> = self.read_aligned(offset, length)?.into();
        let mut chunks = lock();
        if chunks.len() >= MAX_CHUNKS {
            chunks.pop_front();
        }
        chunks.push_back((number, Arc::clone(&chunk)));
        Ok(chunk)
    }

    fn is_direct(&self) -> bool {
        let flags = fcntl(&*self.file, FcntlArg::F_GETFL).unwrap_or_default();
        OFlag::from_bits_retain(flags).contains(OFlag::O_DIRECT)
    }

    /// Reads a piece; the last one of the disk is shorter. Offset, length and memory are aligned, as a file that was
    /// opened with `O_DIRECT` demands.
    fn read_aligned(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let buffer = &mut memory[start..start + length];
        let mut n = 0;
        while n < length {
            match self.file.read_at(&mut buffer[n..], offset + n as u64) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.raw_os_error() == Some(Errno::EINVAL as i32) && self.is_direct() =>
                {
                    // The disk has stricter demands, so it is read through the page cache after all.
                    fcntl(&*self.file, FcntlArg::F_SETFL(OFlag::empty()))?;
                }
                Err(error) => return Err(error),
            }
        }
        memory.truncate(start + n);
        memory.drain(..start);
        Ok(memory)
    }
}

impl ReadAt for Disk {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        self.read_exact_at(offset, buffer).map_err(|error| format!("reading at {offset}: {error}"))
    }
}

/// A part of a disk, read-only.
#[derive(Debug, Clone)]
pub struct Window {
    disk: Disk,
    start: u64,
    size: u64,
    position: u64,
}

impl Window {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::Error::other(format!("offset {offset} is beyond the partition")));
        }
        self.disk.read_exact_at(self.start + offset, buffer)
    }
}

impl ReadAt for Window {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        self.read_exact_at(offset, buffer).map_err(|error| format!("reading at {offset}: {error}"))
    }
}

impl ext4_view::Ext4Read for Window {
    fn read(
        &mut self,
        start_byte: u64,
        dst: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync + 'static>> {
        self.read_exact_at(start_byte, dst)?;
        // The library expects inodes with a longer checksum than small ones have, as `mke2fs` up to 1.46.3 made them.
        if start_byte == ext4::SUPERBLOCK_AT && dst.get(0x58..0x5a) == Some(&[128, 0]) {
            dst[0x65] &= !4;
        }
        Ok(())
    }
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.position);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if n > 0 {
            self.read_exact_at(self.position, &mut buffer[..n])?;
            self.position += n as u64;
        }
        Ok(n)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| io::Error::other("a seek before the beginning"))?;
        Ok(self.position)
    }
}

/// The reader of FAT asks for a writer; nothing is ever written.
impl Write for Window {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is opened read-only"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt as _;

    /// Three chunks and a bit, in which no two places are alike, opened in both ways.
    fn disks() -> (Vec<u8>, Vec<Disk>) {
        let path = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0_u32..50_000).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let direct = File::options().read(true).custom_flags(OFlag::O_DIRECT.bits()).open(&path);
        // Some file systems do not support it.
        let files = direct.into_iter().chain(File::open(&path));
        (bytes, files.map(|file| Disk::of(Arc::new(file))).collect())
    }

    #[test]
    fn any_part_of_a_disk_is_read_with_and_without_the_page_cache() {
        let (bytes, disks) = disks();
        for mut disk in disks {
            assert_eq!(disk.size(), Ok(bytes.len() as u64));
            for (at, n) in [(0, 0), (0, 1), (1, 65_536), (65_535, 2), (100, 199_900), (199_999, 1)]
            {
                let mut found = vec![0; n];
                disk.read_at(at as u64, &mut found).unwrap();
                assert!(found == bytes[at..at + n], "{n} at {at}");
            }
            for (at, n) in [(199_999, 2), (200_000, 1), (1 << 40, 1), (u64::MAX, 2)] {
                assert!(disk.read_at(at, &mut vec![0; n]).is_err(), "{n} at {at}");
            }
        }
    }

    #[test]
    fn window_never_leaves_its_part() {
        let (bytes, disks) = disks();
        for disk in disks {
            let mut window = disk.window(1000, 100).unwrap();
            let mut found = [0; 100];
            ReadAt::read_at(&mut window, 0, &mut found).unwrap();
            assert_eq!(found[..], bytes[1000..1100]);
            assert!(ReadAt::read_at(&mut window, 1, &mut found).is_err());
            assert!(disk.window(0, 0).is_err() && disk.window(1, u64::MAX).is_err());
        }
    }

    #[test]
    fn budget_ends_endless_reads() {
        let (_, disks) = disks();
        for disk in disks {
            disk.bytes_left.store(3 * LEAST_COST_BYTES, Ordering::Relaxed);
            let read = || disk.clone().read_at(0, &mut [0; 8]);
            assert!((0..3).all(|_| read().is_ok()));
            assert!(read().unwrap_err().contains("read limit exceeded"));
        }
    }
}
