//! The kernel's clock, and whether it is synchronised: `adjtimex(2)` with nothing to adjust
//! (`uapi/linux/timex.h`). Needs no privilege.

use std::io;

use nix::errno::Errno;
use nix::libc;

use super::Fixed;

/// Asks for the time in seconds since 1970 and for the clock's state, as `seconds synchronized`,
/// e.g. `1795168800 1`.
pub const CLOCK: Fixed = Fixed { name: "clock", ask };

#[expect(unsafe_code, reason = "adjtimex has no safe wrapper")]
fn ask() -> io::Result<Vec<u8>> {
    // SAFETY: `timex` is a plain structure of numbers, for which all zeros are a value; its
    // `modes` of 0 asks and sets nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a whole `struct timex`, alive and writable during the call; the kernel
    // writes no further than its end and keeps no pointer.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    Errno::result(result)?;
    let is_synchronized = state.status & libc::STA_UNSYNC == 0;
    Ok(format!("{} {}\n", state.time.tv_sec, u8::from(is_synchronized)).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Question as _;

    #[test]
    fn running_kernel_answers_with_two_numbers() {
        let answer = CLOCK.ask_live().unwrap();
        let text = String::from_utf8(answer).unwrap();
        let numbers: Vec<i64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert!(numbers.len() == 2 && numbers[0] > 1_600_000_000 && numbers[1] <= 1, "{text}");
    }
}
