//! Findings of a machine that is read again: one that is gone because its source was not read is not gone.

use probes::findings::collectors;

use super::Collected;
use crate::act::blocking::key;
use crate::api::Finding;

impl Collected {
    /// Takes over the findings of an `earlier` reading that this one could not make.
    ///
    /// A fault in the kernel log stays until the next boot, since the log forgets its first messages.
    pub(super) fn keep_unread(&mut self, earlier: &Collected) {
        let is_unread_now = |finding: &Finding| {
            let read_by = collectors(&finding.component);
            let mut newly = self.unread.iter().filter(|unread| !earlier.unread.contains(unread));
            newly.any(|unread| read_by.iter().any(|name| unread.split(' ').next() == Some(name)))
        };
        let is_lost = |finding: &&Finding| {
            self.findings.iter().all(|found| key(found) != key(finding))
                && (finding.raw.is_some() || is_unread_now(finding))
        };
        let lost: Vec<Finding> = earlier.findings.iter().filter(is_lost).cloned().collect();
        if lost.iter().any(|finding| finding.raw.is_none()) {
            // What was unread when these findings were made: they are kept until their sources are read again.
            self.unread.clone_from(&earlier.unread);
        }
        self.findings.extend(lost);
    }
}

#[cfg(test)]
mod tests {
    use probes::findings::row;

    use super::*;

    fn collected(findings: Vec<Finding>, unread: &[&str]) -> Collected {
        let unread = unread.iter().map(|name| format!("{name} sys/x")).collect();
        Collected { findings, unread, ..Collected::default() }
    }

    #[test]
    fn fault_is_kept_until_its_source_is_read_again() {
        let ecc = || row("memory.ecc.uncorrectable").unwrap().finding(None, "3 errors");
        let first = collected(vec![ecc()], &["gpu"]);
        let mut second = collected(vec![], &["gpu", "memory"]);
        second.keep_unread(&first);
        assert_eq!(second.findings, [ecc()]);
        let mut third = collected(vec![], &["gpu", "memory"]);
        third.keep_unread(&second);
        assert_eq!(third.findings, [ecc()], "still unread");
        let mut other = collected(vec![], &["gpu", "network"]);
        other.keep_unread(&first);
        assert_eq!(other.findings, [], "another source");
        let mut last = collected(vec![], &["gpu"]);
        last.keep_unread(&third);
        assert_eq!(last.findings, []);
    }

    #[test]
    fn fault_in_the_kernel_log_stays_although_the_log_forgets_it() {
        let mut fault = row("disk.kernel_errors").unwrap().finding(Some("sda".into()), "I/O error");
        fault.raw = Some("I/O error, dev sda".into());
        let mut second = collected(vec![], &[]);
        second.keep_unread(&collected(vec![fault.clone()], &[]));
        assert_eq!(second.findings, [fault]);
    }
}
