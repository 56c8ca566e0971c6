//! A part of an FRU device's memory as one question: it is read in several commands if necessary, and
//! a capture has it in full (IPMI 2.0, 34.2; FRU Information Storage Definition 1.0, chapters 7 to 16).

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{IpmiCommand, exchange};
use crate::sys::Question;

/// Bytes that are requested at once; half as many after each refusal of the controller.
const PART_BYTES: u16 = 32;
const LEAST_BYTES: u16 = 4;
/// The device is busy: the controller itself reads it (34.2, which requires a wait of 30 ms).
const BUSY: u8 = 0x81;
const BUSY_WAIT: Duration = Duration::from_millis(30);
const LIMIT_BUSY: u32 = 5;
/// Completion code for a missing answer, the same that a controller gives for one.
const TIMED_OUT: u8 = 0xc3;
/// Multirecords are followed up to this offset.
const LIMIT_RECORD_BYTES: usize = 512;

/// A part of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FruPart {
    /// The common header, at the beginning.
    Header,
    /// The area of the chassis.
    Chassis,
    /// The area of the board.
    Board,
    /// The area of the product.
    Product,
    /// The multirecords, up to the first of a power supply.
    Records,
}

impl FruPart {
    /// Its name in a capture.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Length of the part, as far as the bytes read so far show it.
    pub fn wanted(self, bytes: &[u8]) -> usize {
        match self {
            FruPart::Header => 8,
            // The second byte of an area is its length, in units of 8.
            FruPart::Chassis | FruPart::Board | FruPart::Product => {
                bytes.get(1).map_or(8, |length| 8 * usize::from(*length)).max(8)
            }
            FruPart::Records => wanted_records(bytes).min(LIMIT_RECORD_BYTES),
        }
    }
}

/// Headers of five bytes, each with the length of its data. The last one is marked; records after that of
/// a power supply are not needed.
fn wanted_records(bytes: &[u8]) -> usize {
    const POWER_SUPPLY: u8 = 0x00;
    let mut end = 0;
    while let Some(&[kind, format, length, ..]) =
        bytes.get(end..).and_then(<[u8]>::first_chunk::<5>)
    {
        end += 5 + usize::from(length);
        if kind == POWER_SUPPLY || format & 0x80 != 0 || end > LIMIT_RECORD_BYTES {
            return end;
        }
    }
    end + 5
}

/// A part of the memory of an FRU device. The answer is a completion code, 0 if everything was read,
/// and the bytes that were read.
#[derive(Debug, Clone, Copy)]
pub struct FruArea {
    /// The device's number.
    pub device: u8,
    /// The part to read.
    pub part: FruPart,
    /// Its offset, in bytes.
    pub start: u16,
    /// Size of the whole memory, in bytes.
    pub size: u16,
    /// True if the memory is read in words of two bytes.
    pub is_by_word: bool,
    /// After this no further command is sent.
    pub end: Instant,
}

impl Question for FruArea {
    fn name(&self) -> String {
        format!("ipmi/fru/{:02x}/{}", self.device, self.part.name())
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        self.read(&mut exchange)
    }
}

impl FruArea {
    fn read(&self, ask: &mut dyn FnMut(IpmiCommand) -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        let unit = if self.is_by_word { 2 } else { 1 };
        let room = usize::from(self.size.saturating_sub(self.start));
        let (mut bytes, mut part, mut n_busy) = (Vec::new(), PART_BYTES, 0);
        loop {
            let wanted = self.part.wanted(&bytes).min(room);
            let n_bytes = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            if bytes.len() >= wanted {
                bytes.truncate(wanted);
                return Ok(finished(0, bytes));
            }
            if Instant::now() > self.end {
                return Ok(finished(TIMED_OUT, bytes));
            }
            // The length is known only after the first bytes; any excess is cut off.
            let rest = if bytes.is_empty() { room } else { wanted - bytes.len() };
            let count = part.min(u16::try_from(rest).unwrap_or(part)).div_ceil(unit);
            let command = IpmiCommand::FruData {
                device: self.device,
                offset: (self.start + n_bytes) / unit,
                count: u8::try_from(count).unwrap_or(u8::MAX),
            };
            let answer = match ask(command) {
                Err(error) if bytes.is_empty() => return Err(error),
                Err(_) => return Ok(finished(TIMED_OUT, bytes)),
                Ok(answer) => answer,
            };
            match answer.split_first() {
                Some((0, data)) => {
                    let more = read_data(data, unit, count);
                    if more.is_empty() {
                        return Ok(finished(0, bytes));
                    }
                    bytes.extend(more);
                }
                // The length of the request, of its data or of the answer is too large.
                Some((0xc7 | 0xc8 | 0xca, _)) if part > LEAST_BYTES => part /= 2,
                Some((&BUSY, _)) if n_busy < LIMIT_BUSY => {
                    n_busy += 1;
                    thread::sleep(BUSY_WAIT);
                }
                Some((code, _)) => return Ok(finished(*code, bytes)),
                None => return Ok(finished(TIMED_OUT, bytes)),
            }
        }
    }
}

/// The number of units and then the units; never more than were requested.
fn read_data(data: &[u8], unit: u16, count: u16) -> &[u8] {
    let Some((n_units, data)) = data.split_first() else { return &[] };
    let n_units =
        u16::from(*n_units).min(count).min(u16::try_from(data.len()).unwrap_or(count) / unit);
    data.get(..usize::from(n_units * unit)).unwrap_or_default()
}

fn finished(code: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.insert(0, code);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(part: FruPart, start: u16, size: u16) -> FruArea {
        let end = Instant::now() + Duration::from_mins(1);
        FruArea { device: 3, part, start, size, is_by_word: false, end }
    }

    /// A memory that returns at most a given number of bytes at once, in units of a given size.
    fn memory(
        bytes: &[u8],
        most: u8,
        unit: usize,
    ) -> impl FnMut(IpmiCommand) -> io::Result<Vec<u8>> {
        move |command| {
            let IpmiCommand::FruData { offset, count, .. } = command else { panic!() };
            if usize::from(count) * unit > usize::from(most) {
                return Ok(vec![0xc8]);
            }
            let start = usize::from(offset) * unit;
            let part = &bytes[start..start + usize::from(count) * unit];
            Ok([&[0, count], part].concat())
        }
    }

    fn board() -> Vec<u8> {
        (0..128).map(|n| if n == 9 { 9 } else { n }).collect()
    }

    #[test]
    fn area_is_read_in_the_largest_parts_that_the_controller_allows() {
        let bytes = board();
        for (most, unit) in [(255, 1), (16, 1), (9, 1), (255, 2), (16, 2)] {
            let mut n_asked = 0;
            let mut give = memory(&bytes, most, unit);
            let area = FruArea { is_by_word: unit == 2, ..area(FruPart::Board, 8, 128) };
            let read = area.read(&mut |command| {
                n_asked += 1;
                give(command)
            });
            assert_eq!(read.unwrap(), [&[0], &bytes[8..80]].concat(), "{most} {unit}");
            assert!(n_asked <= 12, "{n_asked}");
        }
    }

    #[test]
    fn bytes_read_before_a_failure_are_kept() {
        let bytes = board();
        let cut = |failure: io::Result<Vec<u8>>| {
            let (mut give, mut failure) = (memory(&bytes, 255, 1), Some(failure));
            let mut n_asked = 0;
            area(FruPart::Board, 8, 128).read(&mut |command| {
                n_asked += 1;
                if n_asked == 2 { failure.take().unwrap() } else { give(command) }
            })
        };
        let silent = cut(Err(io::ErrorKind::TimedOut.into())).unwrap();
        assert_eq!((silent[0], silent.len()), (TIMED_OUT, 33));
        assert_eq!(cut(Ok(vec![0xcb])).unwrap()[0], 0xcb);
        assert_eq!(cut(Ok(vec![BUSY])).unwrap()[0], 0, "one that is busy is asked again");
        assert_eq!(cut(Ok(vec![0, 0])).unwrap().len(), 33, "no bytes more");
        let mut never = |_| Err(io::ErrorKind::TimedOut.into());
        assert!(area(FruPart::Header, 0, 128).read(&mut never).is_err());
        let late = area(FruPart::Header, 0, 8);
        let late = FruArea { end: late.end.checked_sub(Duration::from_secs(61)).unwrap(), ..late };
        assert_eq!(late.read(&mut never).unwrap(), [TIMED_OUT]);
    }

    #[test]
    fn requests_stay_within_the_memory() {
        let bytes = board();
        let read = area(FruPart::Board, 8, 40).read(&mut memory(&bytes, 255, 1)).unwrap();
        assert_eq!(read.len(), 1 + 32, "the area says that it is longer than the memory");
        assert_eq!(area(FruPart::Board, 99, 40).read(&mut memory(&bytes, 255, 1)).unwrap(), [0]);
    }

    #[test]
    fn only_the_head_of_an_area_without_length_is_read() {
        let bytes = [1, 0, 17, 0xc0, 0xc0, 0xc1, 0, 0, 9, 9];
        let read = area(FruPart::Chassis, 0, 10).read(&mut memory(&bytes, 255, 1)).unwrap();
        assert_eq!(read, [&[0], &bytes[..8]].concat());
    }

    #[test]
    fn records_are_read_up_to_the_power_supply_or_the_last() {
        assert_eq!(FruPart::Records.wanted(&[]), 5);
        assert_eq!(FruPart::Records.wanted(&[0, 2, 24, 0, 0]), 29);
        assert_eq!(FruPart::Records.wanted(&[1, 2, 1, 0, 0, 9]), 11);
        assert_eq!(FruPart::Records.wanted(&[1, 0x82, 1, 0, 0, 9]), 6);
        assert_eq!(FruPart::Records.wanted(&[1, 2, 255, 0, 0].repeat(200)), LIMIT_RECORD_BYTES);
    }
}
