//! Bounded reads of a disk: a window never leaves its partition, and a budget stops endless reads.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// How many bytes may be read from one disk.
const BUDGET_BYTES: u64 = 2 << 30;
/// How many reads may be made on one disk; structures that refer to each other in a circle end here.
const BUDGET_READS: u64 = 2_000_000;

/// A source of bytes at offsets.
pub trait ReadAt {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The source is too short, or cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String>;
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
    reads_left: Arc<AtomicU64>,
}

impl Disk {
    /// Opens a disk for reading.
    ///
    /// # Errors
    /// In words: it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file =
            File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?;
        Ok(Self::of(Arc::new(file)))
    }

    /// An open disk, whose pages are dropped from the page cache, so that reads come from the medium.
    #[must_use]
    pub fn of(file: Arc<File>) -> Self {
        // Otherwise the page cache that coreos-installer filled could be read instead of the disk.
        file.sync_all().ok();
        posix_fadvise(&*file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
        Self {
            file,
            bytes_left: Arc::new(AtomicU64::new(BUDGET_BYTES)),
            reads_left: Arc::new(AtomicU64::new(BUDGET_READS)),
        }
    }

    /// The same disk with a budget of its own, for this many bytes more than usual.
    #[must_use]
    pub fn with_budget(self, n_bytes: u64) -> Self {
        let bytes_left = Arc::new(AtomicU64::new(BUDGET_BYTES.saturating_add(n_bytes)));
        Self { bytes_left, ..self }
    }

    /// The size of the disk in bytes.
    ///
    /// # Errors
    /// In words: the kernel does not say.
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

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let n = buffer.len() as u64;
        let spend = |left: &AtomicU64, n| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(n))
        };
        if spend(&self.bytes_left, n).is_err() || spend(&self.reads_left, 1).is_err() {
            return Err(io::Error::other(
                "read limit exceeded: the disk's structures refer to each other in a circle",
            ));
        }
        self.file.read_exact_at(buffer, offset)
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
        Ok(self.read_exact_at(start_byte, dst)?)
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
