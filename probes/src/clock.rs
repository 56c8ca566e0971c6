//! State of the clocks: the kernel's (`adjtimex(2)`) and the battery-backed one
//! (`/sys/class/rtc/rtcN/since_epoch`, `Documentation/ABI/testing/sysfs-class-rtc`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::sys::clock::CLOCK;

/// The machine's clocks.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Clock {
    /// True if time servers keep the kernel's clock synchronised (`STA_UNSYNC`).
    pub is_synchronized: Option<bool>,
    /// Seconds by which the battery-backed clock is ahead of the kernel's; 0 if they differ by at most
    /// one. Whole hours may mean that it is set to local time.
    pub rtc_offset_s: Option<i64>,
}

/// Reads the clocks; `None` if the kernel's state is unknown.
pub fn clock(machine: &Machine) -> Option<Clock> {
    let answer = machine.ask(&CLOCK)?;
    let text = String::from_utf8_lossy(&answer);
    let Some((now, is_synchronized)) = parse(&text) else {
        machine.problem("clock", crate::machine::quote(&text), "seconds, and 0 or 1");
        return None;
    };
    let rtc: Option<i64> = machine.number("sys/class/rtc/rtc0/since_epoch");
    let offset = rtc.and_then(|rtc| rtc.checked_sub(now));
    Some(Clock {
        is_synchronized: Some(is_synchronized),
        rtc_offset_s: offset.map(|offset| if offset.unsigned_abs() <= 1 { 0 } else { offset }),
    })
}

fn parse(text: &str) -> Option<(i64, bool)> {
    let (seconds, flag) = text.trim().split_once(' ')?;
    let flag = ["0", "1"].iter().position(|known| *known == flag)?;
    Some((seconds.parse().ok()?, flag == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn clocks_within_a_second_agree_and_others_have_an_offset() {
        let with = |rtc: &str| {
            let rtc = ("sys/class/rtc/rtc0/since_epoch", rtc);
            clock(&tree(&[("kernel/clock", "1795168800 1\n"), rtc])).unwrap()
        };
        assert_eq!(with("1795168801\n").rtc_offset_s, Some(0));
        assert_eq!(with("1795172400\n").rtc_offset_s, Some(3600));
        assert_eq!(with("-9223372036854775808\n").rtc_offset_s, None);
        assert_eq!(with("x\n"), Clock { is_synchronized: Some(true), rtc_offset_s: None });
    }

    #[test]
    fn missing_answer_gives_no_clock_and_nonsense_is_a_problem() {
        assert_eq!(clock(&tree(&[("proc/uptime", "1 1\n")])), None);
        let machine = tree(&[("kernel/clock", "soon\n")]);
        assert_eq!(clock(&machine), None);
        assert_eq!(machine.problems().len(), 1);
    }
}
