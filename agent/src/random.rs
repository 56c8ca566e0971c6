//! Random bytes from the kernel, and random UUIDs (RFC 9562, version 4), such as idempotency keys.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::SystemTime;

use uuid::Builder;

/// Source of the kernel's random numbers.
pub(crate) const DEVICE: &str = "/dev/urandom";

/// A random UUID, e.g. `6f1c2d3e-8a4b-4c5d-9e6f-708192a3b4c5`. It neither fails nor waits: the result of a job needs one.
pub fn uuid() -> String {
    Builder::from_random_bytes(random_bytes_or_time()).into_uuid().to_string()
}

/// At most 16 random bytes from the kernel. Without them those of the time of day, which still differ from call to call and
/// node to node.
pub(crate) fn random_bytes_or_time<const N: usize>() -> [u8; N] {
    let time = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let bytes = since.as_nanos().to_le_bytes();
        std::array::from_fn(|at| bytes.get(at).copied().unwrap_or_default())
    };
    random_bytes().unwrap_or_else(|_| time())
}

/// Random bytes from the kernel. Unlike `getrandom(2)`, its device never waits for the kernel to gather randomness early
/// at boot.
///
/// # Errors
/// If the device cannot be read.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open(DEVICE)?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_uuids_differ_and_are_of_version_4() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'), "{one}");
    }
}
