//! Asks the controller, command by command, no longer than it was given time for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::sys::Question;
use crate::sys::ipmi::IpmiCommand;

/// What is expected of a list that was cut at a bound.
pub(super) const ONLY_FIRST: &str = "fewer; only the first are read";

/// A machine's controller, and until when it is asked.
#[derive(Debug)]
pub(super) struct Controller<'a> {
    pub(super) machine: &'a Machine,
    end: Instant,
}

/// The answer to a command.
#[derive(Debug)]
pub(super) struct Answer {
    /// 0 where the command was done.
    pub(super) code: u8,
    pub(super) data: Vec<u8>,
}

impl Answer {
    /// Busy, a time-out, an answer that could not be made, and no reason (IPMI 2.0, table 5-2). The
    /// kernel's drivers say the last one for a controller that they cannot talk to.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.code, 0xc0 | 0xc3 | 0xce | 0xff)
    }
}

impl<'a> Controller<'a> {
    pub(super) fn new(machine: &'a Machine, budget: Duration) -> Controller<'a> {
        Controller { machine, end: Instant::now() + budget }
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        Instant::now() > self.end
    }

    /// Until when it is asked.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// Asks, whatever the answer is; `None` where there is none, or no time is left.
    pub(super) fn answer(&self, command: IpmiCommand) -> Option<Answer> {
        self.ask(&command)
    }

    /// As [`Controller::answer`], of a question that takes several commands.
    pub(super) fn ask(&self, question: &dyn Question) -> Option<Answer> {
        if self.is_out_of_time() {
            return None;
        }
        let mut data = self.machine.ask(question)?;
        let code = *data.first()?;
        Some(Answer { code, data: data.split_off(1) })
    }

    /// As [`Controller::data`], and tells where the controller fails, which is no refusal.
    pub(super) fn data_or_tell(&self, command: IpmiCommand) -> Option<Vec<u8>> {
        let answer = self.answer(command)?;
        if answer.is_failure() {
            let found = format!("completion code {:02x}", answer.code);
            self.machine.problem(&Question::name(&command), found, "an answer or a refusal");
        }
        Some(answer.data).filter(|_| answer.code == 0)
    }

    /// The data of an answer; `None` too where the controller refuses.
    pub(super) fn data(&self, command: IpmiCommand) -> Option<Vec<u8>> {
        self.answer(command).filter(|answer| answer.code == 0).map(|answer| answer.data)
    }
}

/// Follows a list of the controller from `first` on, in which each record names the next, and gives
/// whether its end was reached. A list that leads back into itself ends there.
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

/// That time or answers ended before the list did; `which` says which part was read, if that is
/// known. The words are the same in a replay.
pub(super) fn tell(machine: &Machine, path: &str, which: &str, n_read: usize, n_all: usize) {
    let found = format!("{which}{n_read} of {n_all} read");
    machine.problem(path, found, "all of them within the time given to the controller");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_leads_back_into_itself_ends() {
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
