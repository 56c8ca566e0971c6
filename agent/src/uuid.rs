//! Random UUIDs (RFC 9562, version 4): idempotency keys, names of partial files, and the name of a node that has none.

use std::fs::File;
use std::io::Read as _;
use std::time::SystemTime;

/// A random UUID, e.g. `6f1c2d3e-8a4b-4c5d-9e6f-708192a3b4c5`.
#[must_use]
pub fn random() -> String {
    // Without random numbers from the kernel the time of day still differs from call to call and node to node.
    let bytes = random_bytes::<16>().unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or([0; 16], |since| since.as_nanos().to_le_bytes())
    });
    version_4(bytes)
}

/// Random bytes from the kernel; `None` if `/dev/urandom` cannot be read.
pub(crate) fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The text form of `bytes`, with the bits of version and variant set.
fn version_4(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = formats::hex::hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_set_and_the_other_bits_stay() {
        assert_eq!(version_4([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(version_4([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn two_uuids_differ() {
        assert_ne!(random(), random());
    }
}
