//! Echo requests and responses of ICMP (RFC 792) and `ICMPv6` (RFC 4443).

use crate::bytes::array;

/// The content that identifies a program's requests.
pub type Cookie = [u8; 16];

/// An echo request. The kernel fills in the checksum of `ICMPv6`, and that of ICMP on ping sockets only.
pub fn request(round: u16, cookie: Cookie, is_v4: bool) -> Vec<u8> {
    let kind = if is_v4 { 8 } else { 128 };
    let [high, low] = round.to_be_bytes();
    let mut packet = vec![kind, 0, 0, 0, cookie[0], cookie[1], high, low];
    packet.extend(cookie);
    [packet[2], packet[3]] = checksum(&packet).to_be_bytes();
    packet
}

/// The checksum of the Internet (RFC 1071), of an even number of bytes.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    !words.fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// True if a packet is the response to a request of this round. Raw sockets of IPv4 put the IP header before it.
pub fn is_response(packet: &[u8], round: u16, cookie: Cookie) -> bool {
    let first = packet.first().copied().unwrap_or_default();
    let n_ip_bytes = if first >> 4 == 4 { usize::from(first & 0xf) * 4 } else { 0 };
    let packet = packet.get(n_ip_bytes..).unwrap_or_default();
    matches!(packet.first(), Some(0 | 129))
        && array(packet, 6) == Some(round.to_be_bytes())
        && array(packet, 8) == Some(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = [7; 16];

    #[test]
    fn only_the_response_to_our_own_request_of_this_round_counts() {
        let mut packet = request(3, COOKIE, true);
        assert!(!is_response(&packet, 3, COOKIE), "a request is no response");
        packet[0] = 0;
        assert!(is_response(&packet, 3, COOKIE));
        assert!(!is_response(&packet, 2, COOKIE));
        assert!(!is_response(&packet, 3, [8; 16]));
        let mut raw = vec![0x45; 20];
        raw.extend(&packet);
        assert!(is_response(&raw, 3, COOKIE));
        for n in 0..packet.len() {
            assert!(!is_response(&packet[..n], 3, COOKIE));
        }
    }

    #[test]
    fn checksum_of_a_packet_with_its_checksum_is_zero() {
        assert_eq!(checksum(&request(1, COOKIE, true)), 0);
    }
}
