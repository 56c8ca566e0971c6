//! Sends commands to the controller within a time budget (IPMI 2.0, chapter 5).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::sys::Question;
use crate::sys::ipmi::IpmiCommand;

/// The expected value in the problem for a list that exceeds its limit.
pub(super) const ONLY_FIRST: &str = "fewer; only the first are read";

/// A machine's controller and the deadline for its answers.
#[derive(Debug)]
pub(super) struct Controller<'a> {
    pub(super) machine: &'a Machine,
    pub(super) end: Instant,
}

/// The answer to a command.
#[derive(Debug)]
pub(super) struct Answer {
    /// 0 if the command succeeded.
    pub(super) code: u8,
    pub(super) data: Vec<u8>,
}

impl Answer {
    /// Busy, timeout, response could not be provided, unspecified error (IPMI 2.0, table 5-2). The
    /// kernel's drivers use the last one for a controller that they cannot reach.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.code, 0xc0 | 0xc3 | 0xce | 0xff)
    }
}

impl<'a> Controller<'a> {
    pub(super) fn new(machine: &'a Machine, budget: Duration) -> Controller<'a> {
        Controller { machine, end: Instant::now() + budget }
    }

    /// Returns the answer whatever its code is; `None` if there is none or no time is left.
    pub(super) fn ask(&self, question: &dyn Question) -> Option<Answer> {
        if Instant::now() > self.end {
            return None;
        }
        let mut data = self.machine.ask(question)?;
        let code = *data.first()?;
        Some(Answer { code, data: data.split_off(1) })
    }

    /// Like [`Controller::data`], but records a problem if the controller fails. A refusal is not a failure.
    pub(super) fn data_or_problem(&self, command: IpmiCommand) -> Option<Vec<u8>> {
        let answer = self.ask(&command)?;
        if answer.is_failure() {
            let found = format!("completion code {:02x}", answer.code);
            self.machine.problem(&Question::name(&command), found, "an answer or a refusal");
        }
        Some(answer.data).filter(|_| answer.code == 0)
    }

    /// The data of an answer; also `None` if the controller refuses the command.
    pub(super) fn data(&self, command: IpmiCommand) -> Option<Vec<u8>> {
        self.ask(&command).filter(|answer| answer.code == 0).map(|answer| answer.data)
    }
}

/// Follows a list from `first` on, in which each record names the next. Returns whether the end was
/// reached. A cycle ends the list.
pub(super) fn follow(first: u16, limit: usize, mut read: impl FnMut(u16) -> Option<u16>) -> bool {
    const END: u16 = 0xffff;
    let mut seen = BTreeSet::new();
    let mut id = first;
    while seen.len() < limit && seen.insert(id) {
        match read(id) {
            Some(END) => return true,
            Some(next) => id = next,
            None => return false,
        }
    }
    false
}

/// Records that only part of a list was read because time ran out or the controller stopped
/// responding; `which` names the part that was read, if known. The text is the same in a replay.
pub(super) fn incomplete(machine: &Machine, path: &str, which: &str, n_read: usize, n_all: usize) {
    let found = format!("{which}{n_read} of {n_all} read");
    machine.problem(path, found, "all of them within the time given to the controller");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cyclic_list_ends() {
        let mut n_read = 0;
        let mut read = |id: u16| {
            n_read += 1;
            Some(if id == 3 { 1 } else { id + 1 })
        };
        assert!(!follow(0, 1000, &mut read));
        assert_eq!(n_read, 4);
        assert!(follow(0, 1000, |id| Some(if id == 9 { 0xffff } else { id + 1 })));
        assert!(!follow(0, 5, |id| Some(id + 1)));
        assert!(!follow(0, 5, |_| None));
    }
}
