//! Random UUIDs (RFC 9562, version 4), such as idempotency keys and the name of a node that has none, and random bytes.

use std::fs::File;
use std::io::Read as _;
use std::time::SystemTime;

use uuid::Builder;

/// A random UUID, e.g. `6f1c2d3e-8a4b-4c5d-9e6f-708192a3b4c5`. It neither fails nor waits: the result of a job needs one.
#[must_use]
pub fn random() -> String {
    // Without random numbers from the kernel the time of day still differs from call to call and node to node.
    let bytes = random_bytes::<16>().unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or([0; 16], |since| since.as_nanos().to_le_bytes())
    });
    Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Random bytes from the kernel; `None` if `/dev/urandom` cannot be read. Unlike `getrandom(2)` it never waits for the
/// kernel to gather randomness early at boot.
pub(crate) fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_uuids_differ_and_are_of_version_4() {
        let (one, other) = (random(), random());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'), "{one}");
    }
}
