//! Reads the System Event Log (IPMI 2.0, chapter 31), the newest entries first: they matter most, and
//! a slow controller returns only a few hundred in the available time.

use std::collections::VecDeque;

use formats::ipmi::{Entry, id};

use super::ask::{Controller, follow};
use super::event_log::LIMIT_ENTRIES;
use crate::sys::ipmi::IpmiCommand;

/// The numbers that request the first and the last entry, whatever their real numbers are (31.5).
const BEGINNING: u16 = 0;
const LAST: u16 = 0xffff;
/// The part that was kept of a log that could not be read in full.
pub(super) const NEWEST: &str = "newest";
const OLDEST: &str = "oldest";
/// The largest number of entries followed to find the end of the list or a known entry.
const LIMIT_FOLLOWED: usize = 8192;
/// Most controllers number entries consecutively, others by the space that an entry takes. This is the
/// largest number of candidates tried between two entries; a whole log may miss twice as many.
const WIDEST_STEP: u16 = 32;
const LIMIT_MISSES: u16 = 64;

/// Reads the log, which has `n_entries`, until `LIMIT_ENTRIES` are read or time runs out. Returns the entries, oldest first,
/// and the end at which entries were kept, [`NEWEST`] or [`OLDEST`], if others could not be read.
pub(super) fn log(
    controller: &Controller,
    n_entries: u16,
) -> (VecDeque<Entry>, Option<&'static str>) {
    let n_wanted = usize::from(n_entries.min(LIMIT_ENTRIES));
    let mut back = Back { controller, n_wanted, step: 1, n_misses: 0 };
    let newest = back.read();
    if newest.len() >= n_wanted {
        return (newest, None);
    }
    // No number before these is known: the list is followed from its beginning to them.
    let known = newest.front().map(id);
    let (mut entries, is_complete) = forward(controller, known);
    match (is_complete, newest.is_empty()) {
        (true, _) => {
            entries.extend(newest);
            let n_over = entries.len().saturating_sub(usize::from(LIMIT_ENTRIES));
            entries.drain(..n_over);
            (entries, None)
        }
        (false, true) => (entries, Some(OLDEST)),
        (false, false) => (newest, Some(NEWEST)),
    }
}

/// Walks from the last entry back to earlier ones, whose numbers no entry contains.
struct Back<'a> {
    controller: &'a Controller<'a>,
    n_wanted: usize,
    /// The last difference between the numbers of two adjacent entries.
    step: u16,
    n_misses: u16,
}

impl Back<'_> {
    fn read(&mut self) -> VecDeque<Entry> {
        let mut entries = VecDeque::new();
        let Some(Found::Entry(_, last)) = read(self.controller, LAST) else { return entries };
        entries.push_front(last);
        while entries.len() < self.n_wanted {
            let Some(entry) = entries.front().map(id).and_then(|first| self.before(first)) else {
                break;
            };
            entries.push_front(entry);
        }
        entries
    }

    /// The entry that names `first` as the next one, if its number can be guessed.
    fn before(&mut self, first: u16) -> Option<Entry> {
        let steps = std::iter::once(self.step).chain(1..=WIDEST_STEP);
        for step in steps {
            let guess = first.checked_sub(step).filter(|guess| *guess != BEGINNING);
            let Some(guess) = guess else { continue };
            match read(self.controller, guess)? {
                Found::Entry(next, entry) if next == first && id(&entry) == guess => {
                    self.step = step;
                    return Some(entry);
                }
                _ => self.n_misses += 1,
            }
            if self.n_misses > LIMIT_MISSES {
                return None;
            }
        }
        None
    }
}

/// Follows the list from its beginning to the entry `known`, or to its end. Returns the last entries
/// and whether the target was reached.
fn forward(controller: &Controller, known: Option<u16>) -> (VecDeque<Entry>, bool) {
    const END: u16 = 0xffff;
    let mut entries = VecDeque::new();
    let is_complete = follow(BEGINNING, LIMIT_FOLLOWED, |number| {
        let Some(Found::Entry(next, entry)) = read(controller, number) else { return None };
        // It may be the only one.
        if Some(id(&entry)) == known {
            return Some(END);
        }
        if entries.len() == usize::from(LIMIT_ENTRIES) {
            entries.pop_front();
        }
        entries.push_back(entry);
        Some(if Some(next) == known { END } else { next })
    });
    (entries, is_complete)
}

enum Found {
    /// The next entry's number, and the entry.
    Entry(u16, Entry),
    /// No entry has this number.
    Nothing,
}

/// `None` if the controller does not respond.
fn read(controller: &Controller, number: u16) -> Option<Found> {
    let answer = controller.ask(&IpmiCommand::EventLogEntry { id: number })?;
    let entry = || {
        let next = u16::from_le_bytes(*answer.data.first_chunk::<2>()?);
        Some(Found::Entry(next, *answer.data.get(2..)?.first_chunk()?))
    };
    Some(if answer.code == 0 { entry().unwrap_or(Found::Nothing) } else { Found::Nothing })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::tree_from_bytes;

    /// Reads a log of the entries with these numbers. Returns the numbers that were read, and `kept`. Numbers in
    /// between are refused, those in `silent` get no answer.
    fn read_log(ids: &[u16], has_last: bool, silent: &[u16]) -> (Vec<u16>, Option<&'static str>) {
        let mut files = Vec::new();
        for number in 1..=ids.last().copied().unwrap() {
            let next = ids.iter().find(|id| **id > number).copied().unwrap_or(0xffff);
            let [low, high] = number.to_le_bytes();
            let mut entry = [0; 16];
            (entry[0], entry[1]) = (low, high);
            let answer = [&[0], next.to_le_bytes().as_slice(), &entry].concat();
            let is_last = Some(&number) == ids.last();
            let names = [
                (true, format!("{number:04x}")),
                (Some(&number) == ids.first(), "0000".to_owned()),
                (is_last && has_last, "ffff".to_owned()),
            ];
            let answer = if ids.contains(&number) { answer } else { vec![0xcb] };
            let responds = |name: &str| !silent.contains(&number) || name == "ffff";
            for (_, name) in names.into_iter().filter(|(is, name)| *is && responds(name)) {
                files.push((format!("kernel/ipmi/event_log/{name}"), answer.clone()));
            }
        }
        let machine = tree_from_bytes(&files);
        let controller = Controller::new(&machine, Duration::from_mins(1));
        let (entries, kept) = log(&controller, u16::try_from(ids.len()).unwrap());
        (entries.iter().map(id).collect(), kept)
    }

    #[test]
    fn only_the_last_entries_of_a_long_log_are_read() {
        let ids: Vec<u16> = (1..=600).collect();
        // The first entry does not answer, and was not needed.
        assert_eq!(read_log(&ids, true, &[1]), (ids[88..].to_vec(), None));
        assert_eq!(read_log(&ids[..9], true, &[]), (ids[..9].to_vec(), None));
        assert_eq!(read_log(&[7], true, &[]), (vec![7], None));
    }

    #[test]
    fn incomplete_log_keeps_its_newest_entries() {
        let ids: Vec<u16> = (1..=100).collect();
        assert_eq!(read_log(&ids, true, &[1, 60]), (ids[60..].to_vec(), Some("newest")));
        let by_20: Vec<u16> = (1..=100).map(|n| 20 * n).collect();
        assert_eq!(read_log(&by_20, true, &[20, 1200]), (by_20[60..].to_vec(), Some("newest")));
        assert_eq!(read_log(&by_20, true, &[]), (by_20.clone(), None));
        let mut gaps: Vec<u16> = (1..=100).filter(|n| n % 7 > 1).collect();
        assert_eq!(read_log(&gaps, true, &[]), (gaps.clone(), None));
        gaps.retain(|n| *n < 20 || *n > 70);
        assert_eq!(read_log(&gaps, true, &[]), (gaps.clone(), None), "a gap that is not guessed");
    }

    #[test]
    fn log_without_last_entry_is_read_from_the_first() {
        let ids: Vec<u16> = (1..=20).collect();
        assert_eq!(read_log(&ids, false, &[]), (ids.clone(), None));
        assert_eq!(read_log(&ids, false, &[12]), (ids[..11].to_vec(), Some("oldest")));
        let many: Vec<u16> = (1..=600).collect();
        assert_eq!(read_log(&many, false, &[]), (many[88..].to_vec(), None));
    }
}
