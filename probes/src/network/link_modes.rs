//! Ethernet link modes by bit, each with its speed (`enum ethtool_link_mode_bit_indices`,
//! `uapi/linux/ethtool.h`, as of Linux 6.18). Bits without a speed (autonegotiation, pause, port
//! kinds, FEC) are omitted.

/// First bit, last bit, speed in Mbit/s.
const SPEEDS: &[(usize, usize, u32)] = &[
    (0, 1, 10),
    (2, 3, 100),
    (4, 5, 1000),
    (12, 12, 10_000),
    (15, 15, 2500),
    (17, 17, 1000),
    (18, 20, 10_000),
    (21, 22, 20_000),
    (23, 26, 40_000),
    (27, 30, 56_000),
    (31, 33, 25_000),
    (34, 35, 50_000),
    (36, 39, 100_000),
    (40, 40, 50_000),
    (41, 41, 1000),
    (42, 46, 10_000),
    (47, 47, 2500),
    (48, 48, 5000),
    (52, 56, 50_000),
    (57, 61, 100_000),
    (62, 66, 200_000),
    (67, 67, 100),
    (68, 68, 1000),
    (69, 73, 400_000),
    (75, 79, 100_000),
    (80, 84, 200_000),
    (85, 89, 400_000),
    (90, 91, 100),
    (92, 92, 10),
    (93, 98, 800_000),
    (99, 102, 10),
    (103, 108, 200_000),
    (109, 114, 400_000),
    (115, 120, 800_000),
    (121, 124, 1_600_000),
];

/// The speed of the fastest mode in a bit set as netlink carries it: words of 32 bits in the
/// machine's byte order. `None` if no bit is a mode with a speed.
pub(super) fn fastest_mbit_s(bits: &[u8]) -> Option<u32> {
    let (words, _) = bits.as_chunks::<4>();
    let is_set = |bit: usize| {
        let word = words.get(bit / 32).map_or(0, |word| u32::from_ne_bytes(*word));
        word >> (bit % 32) & 1 == 1
    };
    let supported =
        SPEEDS.iter().filter(|(first, last, _)| (*first..=*last).any(is_set)).map(|row| row.2);
    supported.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(set: &[usize]) -> Vec<u8> {
        let mut words = [0_u32; 4];
        for bit in set {
            words[bit / 32] |= 1 << (bit % 32);
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn fastest_mode_is_found_in_any_word() {
        assert_eq!(fastest_mbit_s(&bits(&[5, 6, 13, 36])), Some(100_000));
        assert_eq!(fastest_mbit_s(&bits(&[47, 48, 42])), Some(10_000));
        assert_eq!(fastest_mbit_s(&bits(&[6, 7, 49, 74])), None);
        assert_eq!(fastest_mbit_s(&[]), None);
        assert_eq!(fastest_mbit_s(&[0xff; 3]), None);
    }

    #[test]
    fn table_is_sorted_without_overlaps() {
        assert!(SPEEDS.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}
