//! SAS: the log pages that a disk claims to have (SPC-5 §7.3, SBC-4 §6.4). Others are not requested,
//! because the kernel counts a refusal as a failed command.

use super::Health;

const SUPPORTED: u8 = 0x00;
const WRITE_ERRORS: u8 = 0x02;
const READ_ERRORS: u8 = 0x03;
const TEMPERATURE: u8 = 0x0d;
const SOLID_STATE: u8 = 0x11;
const BACKGROUND_SCAN: u8 = 0x15;
const EXCEPTIONS: u8 = 0x2f;

/// Asks for the pages that the disk lists and parses them; `None` if they contain no facts.
pub fn read(ask: &dyn Fn(u8) -> Option<Vec<u8>>) -> Option<Health> {
    let supported = ask(SUPPORTED).filter(|page| body(page, SUPPORTED).is_some())?;
    let has = |page: u8| body(&supported, SUPPORTED).is_some_and(|pages| pages.contains(&page));
    let page = |page: u8| if has(page) { ask(page) } else { None };
    let [temperature, exceptions] =
        [TEMPERATURE, EXCEPTIONS].map(|code| page(code).unwrap_or_default());
    let errors = [READ_ERRORS, WRITE_ERRORS].map(|code| uncorrected(&page(code)?, code));
    let errors = errors.into_iter().flatten().reduce(u64::saturating_add);
    let health = Health {
        is_passed: is_passed(&exceptions),
        temperature_celsius: celsius(&temperature, 0),
        warning_temperature_celsius: celsius(&temperature, 1),
        used_percent: page(SOLID_STATE)
            .and_then(|page| parameter(&page, SOLID_STATE, 1)?.get(3).copied()),
        power_on_hours: page(BACKGROUND_SCAN).and_then(|page| power_on_hours(&page)),
        media_errors: errors,
        ..Health::default()
    };
    (health != Health::default()).then_some(health)
}

/// The bytes after the header of the page `code`, cut to the length that the header gives.
fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let (header, rest) = page.split_at_checked(4)?;
    if header[0] & 0x3f != code {
        return None;
    }
    let n_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Some(&rest[..n_bytes.min(rest.len())])
}

/// The value of the parameter `number` in the page `code`.
fn parameter(page: &[u8], code: u8, number: u16) -> Option<&[u8]> {
    let mut rest = body(page, code)?;
    loop {
        let (header, rest_of_page) = rest.split_at_checked(4)?;
        let (value, next) = rest_of_page.split_at_checked(usize::from(header[3]))?;
        if u16::from_be_bytes([header[0], header[1]]) == number {
            return Some(value);
        }
        rest = next;
    }
}

/// A value of all ones means unknown.
fn celsius(page: &[u8], number: u16) -> Option<i32> {
    let value = *parameter(page, TEMPERATURE, number)?.get(1)?;
    (value != 0xff).then(|| i32::from(value))
}

/// Additional sense code 5Dh: the disk predicts its failure; with the qualifier 255 this is only a test.
fn is_passed(page: &[u8]) -> Option<bool> {
    let parameter = parameter(page, EXCEPTIONS, 0)?;
    Some(*parameter.first()? != 0x5d || parameter.get(1) == Some(&0xff))
}

/// Parameter 6: total of the uncorrected errors.
fn uncorrected(page: &[u8], code: u8) -> Option<u64> {
    let value = parameter(page, code, 6).filter(|value| (1..=8).contains(&value.len()))?;
    Some(value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Parameter 0 begins with the minutes of power-on time.
fn power_on_hours(page: &[u8]) -> Option<u64> {
    let minutes = parameter(page, BACKGROUND_SCAN, 0)?.first_chunk()?;
    Some(u64::from(u32::from_be_bytes(*minutes)) / 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::log_page;

    #[test]
    fn truncated_or_foreign_pages_give_nothing() {
        let whole = log_page(0x0d, &[(0, &[0, 33])]);
        for n_bytes in 0..9 {
            assert_eq!(celsius(&whole[..n_bytes], 0), None);
        }
        assert_eq!(parameter(&whole, 0x2f, 0), None);
        assert_eq!(parameter(&[0x0d, 0, 0xff, 0xff, 0, 0, 0, 0], 0x0d, 5), None);
    }
}
