//! Messages of time servers (SNTP, RFC 4330), and their names in the configuration of chronyd.

/// Bytes of a message without extensions.
const MESSAGE_BYTES: usize = 48;
/// From 1900, when NTP's seconds begin, to 1970.
const NTP_EPOCH_S: f64 = 2_208_988_800.0;

/// The response of a time server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// It knows the time; the clock of this host differs from it by this number of seconds.
    Offset(f64),
    /// It responded that it does not know the time, or refuses this host.
    Unsynchronized,
}

/// A request that its answer identifies by `cookie`.
pub fn request(cookie: [u8; 8]) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    // Version 4, mode 3: a client.
    message[0] = 4 << 3 | 3;
    message[40..].copy_from_slice(&cookie);
    message
}

/// Parses the answer to the request with this `cookie`, and `None` for any other; `now` is this host's time in the middle of
/// question and answer.
pub fn parse(message: &[u8], cookie: [u8; 8], now: f64) -> Option<Answer> {
    let message = message.get(..MESSAGE_BYTES)?;
    let (leap, mode, stratum) = (message[0] >> 6, message[0] & 7, message[1]);
    // The answer repeats what identifies the question.
    if mode != 4 || message[24..32] != cookie {
        return None;
    }
    if leap == 3 || !(1..=15).contains(&stratum) {
        return Some(Answer::Unsynchronized);
    }
    let server = f64::midpoint(seconds(message, 32)?, seconds(message, 40)?) - NTP_EPOCH_S;
    // The seconds overflow in 2036; the nearest moment is meant.
    let era = f64::from(u32::MAX) + 1.0;
    let offset = server - now;
    Some(Answer::Offset(offset - (offset / era).round() * era))
}

/// The time at `at` in seconds and their fraction.
fn seconds(message: &[u8], at: usize) -> Option<f64> {
    let number = |at: usize| Some(u32::from_be_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let fraction = f64::from(number(at + 4)?) / (f64::from(u32::MAX) + 1.0);
    Some(f64::from(number(at)?) + fraction)
}

/// The time servers in the lines `server`, `pool` and `peer` of `chrony.conf(5)`.
pub fn sources(configuration: &str) -> Vec<String> {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        ["server", "pool", "peer"].contains(&kind).then(|| words.next().map(str::to_owned))?
    };
    configuration.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn answer(stratum: u8, seconds: u32) -> Vec<u8> {
        let mut message = vec![0; MESSAGE_BYTES];
        (message[0], message[1]) = (0x24, stratum);
        message[24..32].copy_from_slice(&COOKIE);
        for at in [32, 40] {
            message[at..at + 4].copy_from_slice(&seconds.to_be_bytes());
            message[at + 4..at + 8].copy_from_slice(&(1_u32 << 31).to_be_bytes());
        }
        message
    }

    #[test]
    fn offset_is_the_difference_to_the_nearest_moment_that_is_meant() {
        let offset = |seconds: u32, now: f64| match parse(&answer(2, seconds), COOKIE, now) {
            Some(Answer::Offset(offset)) => offset,
            other => panic!("{other:?}"),
        };
        // 2026-11-22 is 4004294400 in NTP's seconds.
        assert!((offset(4_004_294_400, 1_795_305_600.0) - 0.5).abs() < 1e-6);
        assert!((offset(4_004_294_400, 1_795_305_610.5) + 10.0).abs() < 1e-6);
        // After the overflow in 2036.
        assert!((offset(100, 4_294_967_296.0 - 2_208_988_800.0 + 100.0) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn answer_to_another_question_is_ignored_and_one_without_the_time_is_an_error() {
        assert_eq!(parse(&answer(2, 0), [9; 8], 0.0), None);
        assert_eq!(parse(&answer(0, 0), COOKIE, 0.0), Some(Answer::Unsynchronized));
        assert_eq!(parse(&answer(16, 0), COOKIE, 0.0), Some(Answer::Unsynchronized));
        for n in 0..MESSAGE_BYTES {
            assert_eq!(parse(&answer(2, 0)[..n], COOKIE, 0.0), None);
        }
    }

    #[test]
    fn sources_of_chronyd_are_read_from_its_configuration() {
        let text = "# server no\npool 2.fedora.pool.ntp.org iburst\nserver 192.0.2.1\nmakestep 1 3\nserver\n";
        assert_eq!(sources(text), ["2.fedora.pool.ntp.org", "192.0.2.1"]);
    }
}
