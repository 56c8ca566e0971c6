//! Files as servers of images send them, with the faults that a test asks for.

use std::time::Duration;

use super::mock::{Reply, Request};

/// How a file is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    /// Entity tag.
    pub(crate) etag: &'static str,
    /// Whether parts can be asked for.
    pub(crate) has_ranges: bool,
    /// Whether the length is not announced: the body is chunked.
    pub(crate) is_chunked: bool,
    /// The connection breaks after this many bytes of this response.
    pub(crate) breaks_after: Option<usize>,
    /// Nothing is sent for this long after this many bytes of this response.
    pub(crate) stalls: Option<(usize, Duration)>,
}

/// The first byte that is asked for, and the last one, if only a part is asked for.
fn range(request: &Request) -> Option<(usize, Option<usize>)> {
    let (first, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().unwrap(), last.parse().ok()))
}

/// Whether a request is preflight's, for the beginning of a file.
pub(crate) fn is_for_head(request: &Request) -> bool {
    range(request).is_some_and(|(_, last)| last.is_some())
}

impl Sent {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), has_ranges: true, etag: "\"1\"", ..Self::default() }
    }

    /// The response to this request.
    pub(crate) fn reply(&self, request: &Request) -> Reply {
        let is_same = request.header("if-range").is_none_or(|tag| tag == self.etag);
        let range = range(request).filter(|_| self.has_ranges && is_same);
        let (first, last) = range.unwrap_or_default();
        let total = self.bytes.len();
        let end = last.map_or(total, |last| total.min(last + 1));
        let Some(body) = self.bytes.get(first..end) else { return Reply::status(416) };
        let mut head = match range {
            Some(_) => format!("206 X\r\nContent-Range: bytes {first}-{}/{total}", end - 1),
            None => "200 X".to_owned(),
        };
        head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nETag: {}\r\n", self.etag);
        let sent = &body[..self.breaks_after.unwrap_or(end).min(body.len())];
        let mut bytes = sent.to_vec();
        if self.is_chunked {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            let chunk = |piece: &[u8]| {
                [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
            };
            bytes = sent.chunks(10_000).flat_map(chunk).collect();
            bytes.extend_from_slice(if sent.len() == body.len() { b"0\r\n\r\n" } else { b"" });
        } else {
            head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        }
        let (at, pause) = self.stalls.unwrap_or_default();
        let rest = bytes.split_off(at.min(bytes.len()));
        Reply::Broken([head.into_bytes(), bytes].concat(), pause, rest)
    }
}
