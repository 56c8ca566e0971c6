//! The logs for Ironic: this agent's own and the journal of the boot, as a tar.gz in base64.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::act::System;
use crate::archive::tar_gz;
use crate::clean::RecentLog;
use crate::secret::hide;

/// The most of the journal that is read, in bytes.
const MAX_JOURNAL_BYTES: usize = 4 << 20;
/// Time limit for reading it; Ironic waits a minute for the answer.
const JOURNAL_LIMIT: Duration = Duration::from_secs(30);

/// The sources of the archive.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Program and arguments that print the journal. Secrets are hidden in it, whatever program logged them.
    pub(super) journalctl: Vec<String>,
    pub(super) own: RecentLog,
}

impl Logs {
    /// The archive.
    ///
    /// # Errors
    /// A message with the fault.
    pub(super) fn collect(&self, system: &System) -> Result<String, String> {
        let own = self.own.text();
        let journal = journal(&self.journalctl, system)
            .unwrap_or_else(|why| format!("the journal could not be read: {why}\n"));
        let journal = hide(&journal);
        let files = [("run-coreos-installer.log", own.as_bytes()), ("journal", journal.as_bytes())];
        let bytes = tar_gz(&files).map_err(|error| format!("packing the logs: {error}"))?;
        Ok(STANDARD.encode(bytes))
    }
}

fn journal(journalctl: &[String], system: &System) -> Result<String, String> {
    let (program, args) = journalctl.split_first().ok_or("no program is configured")?;
    system
        .output_of((Path::new(program), args), JOURNAL_LIMIT, MAX_JOURNAL_BYTES, |_| false)
        .map(|(text, _)| text)
        .map_err(|why| format!("running {program}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn archive_has_the_journal_without_the_agents_secrets() {
        let token = Secret::new("t0ken-in-a-j0urnal");
        let line = format!("GET /v1/commands/?agent_token={} HTTP/1.1", token.expose());
        let logs = Logs { journalctl: vec!["echo".into(), line], ..Logs::default() };
        let text = logs.collect(&System::default()).unwrap();
        let bytes = STANDARD.decode(text).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((name, text));
        }
        assert_eq!(found[1].0, "journal");
        assert_eq!(found[1].1, "GET /v1/commands/?agent_token=… HTTP/1.1\n");
    }

    #[test]
    fn missing_journal_does_not_cost_the_agents_own_log() {
        let journalctl = vec!["/nonexistent/journalctl".into()];
        let logs = Logs { journalctl, ..Logs::default() };
        assert!(!logs.collect(&System::default()).unwrap().is_empty());
    }
}
