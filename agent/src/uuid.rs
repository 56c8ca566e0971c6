//! Random UUIDs (RFC 9562, version 4): idempotency keys, names of partial files, and the name of a node that has none.

use std::fs::File;
use std::io::Read as _;

use uuid::Uuid;

/// A random UUID, e.g. `6f1c2d3e-8a4b-4c5d-9e6f-708192a3b4c5`.
#[must_use]
pub fn random() -> String {
    Uuid::new_v4().to_string()
}

/// Random bytes from the kernel; `None` if `/dev/urandom` cannot be read.
pub(crate) fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
