//! Bodies that are produced while they are sent: files, live events, and those that break on purpose.

use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::http::Body;
use crate::socket::Control;

/// The sending end for a body; an error that is sent breaks the connection.
pub(crate) type Pen = mpsc::Sender<io::Result<Bytes>>;

/// The body at the other end of a [`Pen`].
#[derive(Debug)]
struct Written {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    n_bytes: Option<u64>,
}

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.n_bytes.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// A pen and its body; `n_bytes` becomes Content-Length when it is known.
pub(crate) fn written(n_bytes: Option<u64>) -> (Pen, Body) {
    let (pen, chunks) = mpsc::channel(4);
    (pen, Written { chunks, n_bytes }.boxed_unsync())
}

/// A file as a body, read as it is sent.
///
/// # Errors
/// When the file cannot be opened or is not a regular file.
pub(crate) async fn file(path: &Path) -> io::Result<(u64, Body)> {
    let file = tokio::fs::File::open(path).await?;
    let metadata = file.metadata().await?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no regular file"));
    }
    let n_bytes = metadata.len();
    let (pen, body) = written(Some(n_bytes));
    let file = file.into_std().await;
    tokio::task::spawn_blocking(move || send(file.take(n_bytes), n_bytes, &pen));
    Ok((n_bytes, body))
}

/// Reads and sends on its own thread, until the end or until the receiver is gone.
fn send(mut file: impl Read, n_bytes: u64, pen: &Pen) {
    let mut left = n_bytes;
    while left > 0 {
        let mut chunk = vec![0; 256 * 1024];
        let read = match file.read(&mut chunk) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was cut")),
            read => read,
        };
        chunk.truncate(*read.as_ref().unwrap_or(&0));
        left -= chunk.len() as u64;
        let is_bad = read.is_err();
        if pen.blocking_send(read.map(|_| chunk.into())).is_err() || is_bad {
            return;
        }
    }
}

/// The change to a forwarded body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// A number of bytes, a pause, and so on.
    Drip {
        /// Bytes at a time.
        bytes: usize,
        /// Pause after each.
        pause: Duration,
    },
    /// A number of bytes, then the given end.
    EndAt {
        /// Bytes that are forwarded.
        bytes: u64,
        /// The end that follows.
        end: End,
    },
    /// Flips bit 0 of the byte at this offset.
    Flip {
        /// Offset of the byte.
        offset: u64,
    },
}

/// The way in which a body ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection is closed in an orderly way.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing more is sent.
    Silence,
}

/// Forwards a body with a change.
pub(crate) fn changed(body: Body, change: Change, control: Arc<Control>) -> Body {
    let n_bytes = hyper::body::Body::size_hint(&body).exact();
    let (pen, changed) = written(n_bytes);
    tokio::spawn(pass_on(body, change, control, pen));
    changed
}

async fn pass_on(mut body: Body, change: Change, control: Arc<Control>, pen: Pen) {
    let mut offset = 0u64;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let n_bytes = data.len() as u64;
        let is_alive = match change {
            Change::Drip { bytes, pause } => drip(&pen, data, bytes, pause).await,
            Change::Flip { offset: at } => {
                let mut data = BytesMut::from(&data[..]);
                let at = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                if let Some(byte) = at.and_then(|at| data.get_mut(at)) {
                    *byte ^= 1;
                }
                pen.send(Ok(data.freeze())).await.is_ok()
            }
            Change::EndAt { bytes, end } if offset + n_bytes >= bytes => {
                let head = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
                // Not awaited: the end must come even if nobody reads.
                let _ = pen.send(Ok(data.slice(..head.min(data.len())))).await;
                return end_so(&pen, end, &control).await;
            }
            Change::EndAt { .. } => pen.send(Ok(data)).await.is_ok(),
        };
        if !is_alive {
            return;
        }
        offset += n_bytes;
    }
    if let Change::EndAt { end, .. } = change {
        end_so(&pen, end, &control).await;
    }
}

async fn drip(pen: &Pen, mut data: Bytes, bytes: usize, pause: Duration) -> bool {
    while !data.is_empty() {
        let drop = data.split_to(bytes.clamp(1, data.len()));
        if pen.send(Ok(drop)).await.is_err() {
            return false;
        }
        tokio::time::sleep(pause).await;
    }
    true
}

async fn end_so(pen: &Pen, end: End, control: &Control) {
    // Lets the bytes already written leave the machine first.
    tokio::time::sleep(Duration::from_millis(50)).await;
    match end {
        End::Silence => pen.closed().await,
        End::Close | End::Reset => {
            if end == End::Reset {
                control.reset();
            }
            let error = io::Error::new(io::ErrorKind::BrokenPipe, "broken on purpose");
            let _ = pen.send(Err(error)).await;
        }
    }
}

/// Makes a body with zeros.
pub(crate) fn zeros(n_bytes: u64) -> Body {
    let (pen, body) = written(Some(n_bytes));
    tokio::spawn(async move {
        let block = Bytes::from(vec![b'0'; 64 * 1024]);
        let mut left = n_bytes;
        while left > 0 {
            let n_now = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            if pen.send(Ok(block.slice(..n_now))).await.is_err() {
                return;
            }
            left -= n_now as u64;
        }
    });
    body
}
