//! Random bytes from the kernel, and random UUIDs (RFC 9562, version 4), such as idempotency keys.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::SystemTime;

use uuid::Builder;

/// Source of the kernel's random numbers.
pub(crate) const DEVICE: &str = "/dev/urandom";

/// A random UUID, e.g. `6f1c2d3e-8a4b-4c5d-9e6f-708192a3b4c5`. It neither fails nor waits: the result of a job needs one.
pub fn uuid() -> String {
    // Without random numbers from the kernel the time of day still differs from call to call and node to node.
    let bytes = random_bytes::<16>().unwrap_or_else(|_| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or([0; 16], |since| since.as_nanos().to_le_bytes())
    });
    Builder::from_random_bytes(bytes).into_uuid().to_string()
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
