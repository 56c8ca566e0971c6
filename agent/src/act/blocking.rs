//! Selects the findings that prevent an install: by severity, by code, and by part.

use formats::pattern::matches;
use probes::findings::{Finding, Severity, nearest_code, rows};
use probes::parts::PartId;

use super::{BlockOn, Code, Failure, Order, Term, list, say};
use crate::clean;

/// Policy for what prevents an install. A text is `CODE` or `CODE@PART`, with `*` for any characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The least severity; `None` for critical.
    pub block_on: Option<BlockOn>,
    /// Findings that also prevent it, whatever their severity.
    pub also: Vec<String>,
    /// Findings that never prevent it.
    pub except: Vec<String>,
}

impl Policy {
    /// This policy of the node's configuration, combined with the order's: its severity replaces that of the
    /// configuration, its lists are added.
    pub fn with(&self, order: &Order) -> Self {
        Self {
            block_on: order.block_on.or(self.block_on),
            also: [&self.also[..], &order.block_also].concat(),
            except: [&self.except[..], &order.block_except].concat(),
        }
    }

    /// The policy for an order, whose patterns are checked.
    ///
    /// # Errors
    /// `INSTRUCTION_INVALID`: no finding has the code.
    pub fn of(&self, order: &Order) -> Result<Self, Failure> {
        for (key, patterns) in
            [(Term::BlockAlso, &order.block_also), (Term::BlockExcept, &order.block_except)]
        {
            let refuse =
                |error: String| Failure::new(Code::InstructionInvalid, say![key, ": ", error]);
            patterns.iter().try_for_each(|pattern| check_pattern(pattern)).map_err(refuse)?;
        }
        Ok(self.with(order))
    }

    /// The findings that prevent an install.
    pub fn blocking<'a>(&self, findings: &'a [Finding]) -> Vec<&'a Finding> {
        let least = match self.block_on.unwrap_or_default() {
            BlockOn::Critical => Some(Severity::Critical),
            BlockOn::Warning => Some(Severity::Warning),
            BlockOn::Never => None,
        };
        let is_also = |finding: &Finding| self.also.iter().any(|pattern| names(pattern, finding));
        let is_excepted = |finding: &Finding| {
            let mut fitting = self.except.iter().filter(|pattern| names(pattern, finding));
            fitting.any(|pattern| !is_unclear(pattern, findings))
        };
        let blocks = |finding: &&Finding| {
            let is_bad = least.is_some_and(|least| finding.severity >= least);
            (is_bad || is_also(finding)) && !is_excepted(finding)
        };
        findings.iter().filter(blocks).collect()
    }

    /// Refuses an install if a finding prevents it.
    ///
    /// # Errors
    /// If there is one; the failure names each with its part.
    pub fn check(&self, findings: &[Finding]) -> Result<(), Failure> {
        let blocking = self.blocking(findings);
        if blocking.is_empty() {
            return Ok(());
        }
        let named = blocking
            .into_iter()
            .map(|finding| format!("{}: {} ({})", part(finding), finding.evidence, finding.code));
        let what = format!("the machine is faulty: {}", list(named, "; "));
        let advice = say!["replace the part, or ", Term::ExceptFinding];
        Err(Failure::new(Code::Findings, what).advise(advice))
    }
}

/// Checks a text of the lists: a misspelt code would silently allow an install that it should prevent.
///
/// # Errors
/// If no finding has the code.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let (code, part) = split(pattern);
    if part == Some("") {
        let pattern = clean::quoted(pattern, 100);
        return Err(format!("{pattern} has no part after @, expected CODE or CODE@PART"));
    }
    if rows().any(|row| matches(code, row.code)) {
        return Ok(());
    }
    let (code, nearest) = (clean::quoted(code, 100), nearest_code(code));
    Err(format!("no finding has the code {code}; the nearest is {nearest}"))
}

/// Returns a key that identifies a finding while its figures change.
pub fn key(finding: &Finding) -> String {
    format!("{}@{}", finding.code, finding.part())
}

/// The part that a finding names, or its kind.
pub fn part(finding: &Finding) -> String {
    finding.locator.as_ref().map_or_else(|| finding.component.clone(), PartId::to_string)
}

fn split(pattern: &str) -> (&str, Option<&str>) {
    pattern.split_once('@').map_or((pattern, None), |(code, part)| (code, Some(part)))
}

/// True if a text names a finding: its code and the part in full or by name, in upper or lower case.
fn names(pattern: &str, finding: &Finding) -> bool {
    let (code, wanted) = split(pattern);
    let names = || {
        let name = finding.locator.as_ref().map(|part| part.name.clone());
        [part(finding)].into_iter().chain(name)
    };
    matches(code, finding.code.as_str())
        && wanted.is_none_or(|wanted| {
            let wanted = wanted.to_lowercase();
            names().any(|name| matches(&wanted, &name.to_lowercase()))
        })
}

/// True if a text without `*` in its part names several parts: `slot 0` of two controllers. Then it excepts none.
fn is_unclear(pattern: &str, findings: &[Finding]) -> bool {
    let is_one_part = split(pattern).1.is_some_and(|wanted| !wanted.contains('*'));
    let mut named = findings.iter().filter(|finding| names(pattern, finding)).map(part);
    let first = named.next();
    is_one_part && named.any(|other| Some(other) != first)
}

#[cfg(test)]
mod tests {
    use probes::findings::row;

    use super::*;
    use crate::act::testing::texts;

    fn finding(code: &str, locator: &str) -> Finding {
        row(code).unwrap().finding(Some(locator.into()), "seen")
    }

    /// The keys of the findings that block.
    fn blocking(policy: &Policy) -> Vec<String> {
        let findings = [
            finding("memory.ecc.uncorrectable", "DIMM A1"),
            finding("memory.ecc.correctable", "DIMM B2"),
            finding("disk.health.worn", "sda (serial Z1, bay 3)"),
            finding("disk.health.worn", "sdb (serial Z2, bay 4)"),
        ];
        policy.blocking(&findings).into_iter().map(key).collect()
    }

    #[test]
    fn critical_findings_block_unless_policy_says_otherwise() {
        assert_eq!(blocking(&Policy::default()), ["memory.ecc.uncorrectable@DIMM A1"]);
        let policy = |block_on| Policy { block_on: Some(block_on), ..Policy::default() };
        assert_eq!(blocking(&policy(BlockOn::Warning)).len(), 4);
        assert_eq!(blocking(&policy(BlockOn::Never)).len(), 0);
    }

    #[test]
    fn code_and_part_add_to_the_severity_and_exceptions_win() {
        const DIMM: &str = "memory.ecc.correctable@DIMM B2";
        const SDA: &str = "disk.health.worn@sda (serial Z1, bay 3)";
        const SDB: &str = "disk.health.worn@sdb (serial Z2, bay 4)";
        let also = |patterns: &[&str]| Policy {
            block_on: Some(BlockOn::Never),
            also: texts(patterns),
            ..Policy::default()
        };
        for (pattern, expected) in [
            ("memory.ecc.correctable", &[DIMM][..]),
            ("disk.*", &[SDA, SDB]),
            ("disk.health.worn@sdb", &[SDB]),
            ("*@*serial Z1*", &[SDA]),
            ("disk.health.worn@sd", &[]),
        ] {
            assert_eq!(blocking(&also(&[pattern])), expected, "{pattern}");
        }
        let except = Policy {
            block_on: Some(BlockOn::Warning),
            also: texts(&["disk.health.worn@sda"]),
            except: texts(&["memory.*", "disk.health.worn@sda"]),
        };
        assert_eq!(blocking(&except), [SDB]);
    }

    #[test]
    fn exception_that_names_several_parts_by_the_start_of_their_names_excepts_none() {
        let findings = [
            finding("disk.raid_drive_failed", "slot 0 (controller 0000:18:00.0)"),
            finding("disk.raid_drive_failed", "slot 0 (controller 0000:19:00.0)"),
        ];
        let blocking = |except: &str| {
            let policy = Policy { except: texts(&[except]), ..Policy::default() };
            policy.blocking(&findings).len()
        };
        assert_eq!(blocking("disk.raid_drive_failed@slot 0"), 2);
        assert_eq!(blocking("disk.raid_drive_failed@Slot 0 (controller 0000:18:00.0)"), 1);
        assert_eq!(blocking("disk.raid_drive_failed@slot 0*"), 0);
        assert_eq!(blocking("disk.raid_drive_failed"), 0);
    }

    #[test]
    fn instruction_replaces_the_severity_and_adds_to_the_lists() {
        let node =
            Policy { block_on: Some(BlockOn::Warning), also: texts(&["a.b"]), except: vec![] };
        let order = Order {
            block_on: Some(BlockOn::Never),
            block_also: texts(&["c.d"]),
            block_except: texts(&["e.f"]),
            ..Order::default()
        };
        let expected = Policy {
            block_on: Some(BlockOn::Never),
            also: texts(&["a.b", "c.d"]),
            except: texts(&["e.f"]),
        };
        assert_eq!((node.with(&order), node.with(&Order::default())), (expected, node.clone()));
    }

    #[test]
    fn misspelt_code_is_refused_with_the_nearest_one() {
        for good in ["memory.ecc.correctable", "memory.*", "disk.zero_size@sd*", "*"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        let error = check_pattern("memory.ecc.corectable@DIMM A1").unwrap_err();
        assert!(error.ends_with("the nearest is memory.ecc.correctable"), "{error}");
        assert!(check_pattern("memroy.*").unwrap_err().contains("the nearest is memory."));
        assert!(check_pattern("memory.*@").unwrap_err().contains("no part after @"));
    }
}
