//! Facts that could not be read or parsed, with the reason.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most problems that are kept per collector; one more says that there were others.
const LIMIT: usize = 200;

/// Something that was present but could not be read or parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReadProblem")]
pub struct Problem {
    /// The collector that found it, e.g. `network`.
    pub collector: String,
    /// The path or question on the machine, e.g. `/sys/class/net/eno1/speed`.
    pub path: String,
    /// The value that was found: the text in quotes, or the system's error.
    pub found: String,
    /// The expected value, in words.
    pub expected: String,
}

impl Problem {
    /// That `path` held `found` where `expected` was expected.
    pub(crate) fn new(collector: &str, path: &str, found: String, expected: String) -> Problem {
        let path = format!("/{}", path.trim_start_matches('/'));
        Problem { collector: collector.to_owned(), path, found, expected }
    }
}

/// The problems of one collector, shared with the thread that watches its deadline.
#[derive(Debug, Clone)]
pub struct Problems {
    collector: &'static str,
    list: Arc<Mutex<Vec<Problem>>>,
}

impl Problems {
    /// No problems yet, for the collector called `collector`.
    pub fn new(collector: &'static str) -> Problems {
        Problems { collector, list: Arc::default() }
    }

    /// All problems so far.
    pub fn all(&self) -> Vec<Problem> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a problem. The same problem with the same path is kept once.
    pub fn add(&self, path: &str, found: String, expected: String) {
        let problem = Problem::new(self.collector, path, found, expected);
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() > LIMIT || list.contains(&problem) {
            return;
        }
        if list.len() < LIMIT {
            list.push(problem);
        } else {
            list.push(Problem {
                found: format!("more than {LIMIT} problems"),
                expected: "fewer; only the first are listed".to_owned(),
                ..problem
            });
        }
    }

    /// Adds `error` as a problem, unless it only means that there is nothing to read.
    pub fn add_error(&self, path: &str, error: &io::Error) {
        if !is_absence(error) {
            self.add(path, found(error), expected(error).to_owned());
        }
    }
}

/// True if `error` means that the fact is absent: no such file, or the driver or port cannot report it (`EINVAL` and
/// `EOPNOTSUPP` of a port that is down, `net/core/net-sysfs.c`; `ENODEV`, `ENXIO` and `ENODATA` of a device without the
/// function).
fn is_absence(error: &io::Error) -> bool {
    const CODES: [Errno; 10] = [
        Errno::ENOTDIR,
        Errno::EINVAL,
        Errno::EOPNOTSUPP,
        Errno::ENODEV,
        Errno::ENXIO,
        Errno::ENODATA,
        Errno::ENOTTY,
        Errno::ENOSYS,
        Errno::EAFNOSUPPORT,
        Errno::EPROTONOSUPPORT,
    ];
    let code = error.raw_os_error().map(Errno::from_raw);
    error.kind() == io::ErrorKind::NotFound || code.is_some_and(|code| CODES.contains(&code))
}

/// Reason that a read failed; `None` if there was nothing to read.
pub(super) fn why(error: &io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::NotFound).then(|| found(error))
}

pub(super) fn found(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn expected(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        // The mode of a file refuses others than root.
        Some(Errno::EACCES) => "permission to read it; run as root",
        // The kernel asks for a capability, which root in a container lacks. The user id of this process is not
        // consulted: a replay by another user must give the same report.
        Some(Errno::EPERM) => "the capability to read it, as root has outside a container",
        Some(Errno::EISDIR) => "a file, not a directory",
        Some(Errno::ELOOP) => "a path without a loop of symbolic links",
        _ => "a readable file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_is_no_problem_but_denied_file_is() {
        let problems = Problems::new("cpu");
        problems.add_error("sys/a", &io::Error::from_raw_os_error(Errno::ENOENT as i32));
        assert!(problems.all().is_empty());
        problems.add_error("sys/a", &io::Error::from_raw_os_error(Errno::EACCES as i32));
        problems.add_error("sys/a", &io::Error::from_raw_os_error(Errno::EACCES as i32));
        let all = problems.all();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].path.as_str(), all[0].found.as_str()), ("/sys/a", "permission denied"));
    }

    #[test]
    fn missing_capability_is_not_answered_with_advice_that_root_already_followed() {
        let expected = |errno| expected(&io::Error::from_raw_os_error(errno as i32));
        assert!(expected(Errno::EACCES).ends_with("run as root"));
        let advice = expected(Errno::EPERM);
        assert!(
            advice.contains("capability") && advice.contains("outside a container"),
            "{advice}"
        );
        assert!(!advice.contains("run as root"), "{advice}");
    }

    #[test]
    fn number_of_problems_is_bounded() {
        let problems = Problems::new("cpu");
        for i in 0..10_000 {
            problems.add(&format!("sys/{i}"), "x".to_owned(), "y".to_owned());
        }
        assert_eq!(problems.all().len(), LIMIT + 1);
    }

    #[test]
    fn repeated_problem_does_not_count_against_the_limit() {
        let problems = Problems::new("cpu");
        for i in (0..LIMIT).chain(0..LIMIT) {
            problems.add(&format!("sys/{i}"), "x".to_owned(), "y".to_owned());
        }
        assert_eq!(problems.all().len(), LIMIT);
    }
}
