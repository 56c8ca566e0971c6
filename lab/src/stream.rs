//! Bodies that are produced while they are sent: files, live events, and those of [`crate::broken`].

use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::http::Body;

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
