//! Judges CPUs and memory from the processes of a load.
//!
//! A CPU is blamed only for its own failures: its results were wrong, or the process on it crashed or got stuck while
//! another CPU did the same work. Everything else makes it untested, not faulty.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use probes::cpuset::CpuSet;
use probes::findings::{Finding, row};
use probes::parts::logical_cpu;

use super::child::Said;

/// The end of the process on one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It kept computing after it was asked to end.
    Stuck,
    /// It did not end in time, and used no CPU time meanwhile.
    Late,
    /// It never ran.
    NotStarted(String),
}

/// A process on one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Logical CPU number.
    pub cpu: u32,
    /// Its output, as `Said` reads it.
    pub output: String,
    /// Its end.
    pub end: End,
}

/// The outcome of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The faults.
    pub findings: Vec<Finding>,
    /// CPUs that were not tested, or not to the end, by reason.
    pub untested: BTreeMap<String, CpuSet>,
    /// Number of CPUs that computed to the end.
    pub n_cpus: usize,
    /// Amount of memory that was written and read back.
    pub memory_bytes: u64,
}

/// Judges the processes of a load.
pub fn judge(outcomes: &[Outcome]) -> Verdict {
    let all: Vec<(&Outcome, Said)> =
        outcomes.iter().map(|outcome| (outcome, Said::last(&outcome.output))).collect();
    let n_done = all.iter().filter(|(_, said)| said.done.is_some()).count();
    let mut verdict = Verdict { n_cpus: n_done, ..Verdict::default() };
    let (mut memory, mut n_words) = (Vec::new(), 0);
    for (outcome, said) in &all {
        verdict.memory_bytes += said.done.map_or(0, |[_, _, bytes, _]| bytes);
        match fault(outcome, said, n_done > 0) {
            Ok(Some(evidence)) => {
                let part = Some(logical_cpu(&outcome.cpu.to_string()));
                let finding = row("cpu.wrong_result").map(|row| row.finding(part, evidence));
                verdict.findings.extend(finding);
            }
            Ok(None) => {
                // A CPU that computes wrong results proves nothing about memory.
                memory.extend(said.memory.as_ref().map(|word| (outcome.cpu, word)));
                n_words += said.done.map_or(0, |[.., words]| words);
            }
            Err(reason) => {
                verdict.untested.entry(reason).or_default().insert(outcome.cpu);
            }
        }
    }
    if let Some((cpu, word)) = memory.first() {
        let n_words = n_words.max(1);
        let plural = if n_words == 1 { "" } else { "s" };
        let evidence =
            format!("{n_words} word{plural} read back differently, first on CPU {cpu} at {word}");
        verdict.findings.extend(row("memory.wrong_content").map(|row| row.finding(None, evidence)));
    }
    verdict
}

/// Returns the evidence of a CPU fault that the process provides, if any.
///
/// # Errors
/// The reason why the process proves nothing: the CPU was not tested, or not to the end.
fn fault(outcome: &Outcome, said: &Said, is_other_done: bool) -> Result<Option<String>, String> {
    let end = match &outcome.end {
        End::NotStarted(why) => return Err(why.clone()),
        End::Exited(0) if said.done.is_some() => None,
        End::Exited(0) => match (&said.unpinned, said.has_moved) {
            (Some(why), _) => return Err(format!("no process may run on it: {why}")),
            (None, true) => return Err("the kernel stopped using it during the test".to_owned()),
            (None, false) => Some("ended without a result".to_owned()),
        },
        End::Exited(code) => Some(format!("ended with status {code}")),
        End::Signalled(number) => Some(format!("ended with {}", signal_name(*number))),
        End::Stuck => Some("did not come to an end".to_owned()),
        End::Late => Some("did not respond".to_owned()),
    };
    if let Some(first) = &said.wrong {
        let counts = said.done.map(|[rounds, wrong, ..]| {
            format!("{wrong} wrong results in {rounds} rounds, first: ")
        });
        let also = end.map(|end| format!("; then the test {end}")).unwrap_or_default();
        return Ok(Some(format!("{}{first}{also}", counts.unwrap_or_default())));
    }
    let Some(end) = end else { return Ok(None) };
    // The others run the same program at the same time, so it is not the program.
    if is_other_done && is_fault_of_cpu(&outcome.end) {
        return Ok(Some(format!("the test on it {end}; on other CPUs it ran to its end")));
    }
    Err(format!("the test {end}"))
}

/// Returns true if only a wrong result can end a process like this: not another process, not a lack of memory.
fn is_fault_of_cpu(end: &End) -> bool {
    use Signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    let is_crash = |signal: Signal| {
        [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS].contains(&signal)
    };
    match end {
        End::Exited(_) | End::Stuck => true,
        End::Signalled(number) => Signal::try_from(*number).is_ok_and(is_crash),
        End::Late | End::NotStarted(_) => false,
    }
}

fn signal_name(number: i32) -> String {
    Signal::try_from(number)
        .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"done": [900, 0, 8388608, 0]}"#;

    fn outcome(cpu: u32, output: &str, end: End) -> Outcome {
        Outcome { cpu, output: output.to_owned(), end }
    }

    fn good(cpu: u32) -> Outcome {
        outcome(cpu, GOOD, End::Exited(0))
    }

    /// The findings as code, locator and evidence, then the CPUs that were not tested.
    fn judged(outcomes: &[Outcome]) -> Vec<String> {
        let verdict = judge(outcomes);
        let findings = verdict.findings.iter();
        let findings = findings.map(|f| format!("{} {}: {}", f.code, f.part(), f.evidence));
        let untested = verdict.untested.iter().map(|(why, cpus)| format!("untested {cpus}: {why}"));
        findings.chain(untested).collect()
    }

    #[test]
    fn only_the_cpu_with_a_wrong_result_is_named() {
        let wrong =
            r#"{"wrong": "integer arithmetic gave 0x1 instead of 0x2", "done": [100, 3, 0, 0]}"#;
        let expected = "cpu.wrong_result logical CPU 1: 3 wrong results in 100 rounds, first: integer \
                        arithmetic gave 0x1 instead of 0x2";
        assert_eq!(judged(&[good(0), outcome(1, wrong, End::Exited(0)), good(2)]), [expected]);
        assert_eq!(judge(&[good(0), good(1)]).memory_bytes, 16 << 20);
    }

    #[test]
    fn crash_names_the_cpu_only_if_another_one_did_the_same_work() {
        let crash = |cpu| outcome(cpu, "", End::Signalled(11));
        let expected = "cpu.wrong_result logical CPU 1: the test on it ended with SIGSEGV; on other CPUs it \
                        ran to its end";
        assert_eq!(judged(&[good(0), crash(1)]), [expected]);
        assert_eq!(judged(&[crash(0), crash(1)]), ["untested 0-1: the test ended with SIGSEGV"]);
        let panic = outcome(3, "", End::Exited(101));
        let verdict = judge(&[good(0), panic, outcome(4, "", End::Stuck)]);
        assert_eq!(verdict.findings.len(), 2, "{verdict:?}");
    }

    #[test]
    fn wrong_result_before_a_crash_is_the_evidence() {
        let output = "{\"wrong\": \"a memory copy gave 0x1 instead of 0x2\"}\n{\"wro";
        let expected = "cpu.wrong_result logical CPU 7: a memory copy gave 0x1 instead of 0x2; then the test \
                        ended with SIGSEGV";
        assert_eq!(judged(&[outcome(7, output, End::Signalled(11))]), [expected]);
    }

    #[test]
    fn cpu_that_could_not_be_tested_is_named_as_untested_and_not_as_faulty() {
        let unpinned = r#"{"unpinned": "EINVAL: Invalid argument"}"#;
        let found = judged(&[
            good(0),
            outcome(1, unpinned, End::Exited(0)),
            outcome(2, unpinned, End::Exited(0)),
            outcome(3, r#"{"has_moved": true}"#, End::Exited(0)),
            outcome(4, "", End::Signalled(9)),
            outcome(5, "", End::NotStarted("it is offline".to_owned())),
            outcome(6, "", End::Late),
        ]);
        let expected = [
            "untested 5: it is offline",
            "untested 1-2: no process may run on it: EINVAL: Invalid argument",
            "untested 3: the kernel stopped using it during the test",
            "untested 6: the test did not respond",
            "untested 4: the test ended with SIGKILL",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn wrong_words_are_memory_unless_the_cpu_that_read_them_is_wrong_itself() {
        let word = r#""memory": "physical address 0x1000: 0x1 instead of 0x3, a second read gave a wrong value again""#;
        let wrong = r#""wrong": "integer arithmetic gave 0x1 instead of 0x2""#;
        let of_memory = "memory.wrong_content : 5 words read back differently, first on CPU 1 at physical \
                         address 0x1000: ";
        for (lines, expected) in [
            (format!("{{{word}, \"done\": [9, 0, 4096, 5]}}"), of_memory),
            (format!("{{{wrong}, {word}, \"done\": [9, 1, 4096, 5]}}"), "cpu.wrong_result"),
        ] {
            let found = judged(&[good(0), outcome(1, &lines, End::Exited(0))]);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
    }
}
