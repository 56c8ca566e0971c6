//! Keeps the state that must survive a crash of the agent: the token of this boot, the certificate, and every command
//! with its outcome.
//!
//! Ironic reads the list of commands at each heartbeat. An empty list in the middle of a deployment means to it that the
//! step is done, and it boots a disk that holds half an image. So the list lies in a file in `/run`, a command is in it
//! before it starts, and one that was running when the agent ended is shown as failed.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use super::certificate::Certificate;
use super::steps::lost;
use crate::bounded;
use crate::secret::{Secret, exposed};
use crate::whole_file;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most commands that are kept; the oldest that have ended are dropped.
const MAX_COMMANDS: usize = 64;
/// The name of the file in the agent's directory.
const FILE: &str = "ironic-agent.json";

/// A command of Ironic: a record as the API shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    /// Without its extension: `execute_deploy_step`.
    #[serde(rename = "command_name")]
    pub(super) name: String,
    #[serde(rename = "command_status")]
    pub(super) status: Status,
    #[serde(rename = "command_error")]
    pub(super) error: Value,
    #[serde(rename = "command_result")]
    pub(super) result: Value,
}

/// The state of a command. There is none for other versions of the steps, which Ironic treats as success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    #[default]
    Running,
    Succeeded,
    Failed,
}

/// What Ironic knows of this agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) node_uuid: String,
    #[serde(with = "exposed")]
    pub(super) token: Secret,
    pub(super) heartbeat_timeout_s: u64,
    pub(super) callback_url: String,
    pub(super) certificate: Certificate,
}

/// The commands and the session, as they are in their file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Journal {
    #[serde(skip)]
    directory: PathBuf,
    pub(super) session: Option<Session>,
    #[serde(rename = "commands")]
    pub(super) records: Vec<Record>,
}

impl Journal {
    /// Reads the file of an agent that ended in this boot, if there is one. A command that was running then has failed.
    pub(super) fn open(directory: &Path) -> Self {
        let mut journal = Self { directory: directory.to_owned(), ..Self::default() };
        let path = journal.file();
        if !path.exists() {
            return journal;
        }
        let found = bounded::read_file(&path, MAX_BYTES).ok();
        let found = found.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        if let Some(found) = found.filter(|found| found.session.is_some()) {
            (journal.session, journal.records) = (found.session, found.records);
        } else {
            // Without the whole list nothing is shown to Ironic.
            let path = path.display();
            warn!("{path} is damaged; Ironic's time limit will end what it describes");
        }
        for record in journal.records.iter_mut().filter(|record| record.status == Status::Running) {
            record.status = Status::Failed;
            record.error = lost(&record.name);
        }
        if let Err(error) = journal.save() {
            warn!("writing {}: {error}", path.display());
        }
        journal
    }

    /// Begins a session with the outcome of a step whose record is lost, if there was one. Commands that ended under an
    /// earlier token belong to another deployment.
    ///
    /// # Errors
    /// The file cannot be written; the session begins all the same.
    pub(super) fn begin(&mut self, session: Session, lost: Option<Record>) -> io::Result<()> {
        self.session = Some(session);
        self.records.retain(|record| record.status == Status::Running);
        self.records.extend(lost);
        self.save()
    }

    /// The command that is running.
    pub(super) fn running(&self) -> Option<&Record> {
        self.records.iter().find(|record| record.status == Status::Running)
    }

    /// Adds a command that starts once this has returned.
    ///
    /// # Errors
    /// The file cannot be written; then the command must not start.
    pub(super) fn add(&mut self, record: Record) -> io::Result<()> {
        self.records.push(record);
        while self.records.len() > MAX_COMMANDS {
            self.records.remove(0);
        }
        self.save().inspect_err(|_| drop(self.records.pop()))
    }

    /// Notes how a command ended.
    pub(super) fn end(&mut self, id: &str, outcome: Result<Value, Value>) {
        let Some(record) = self.records.iter_mut().find(|record| record.id == id) else { return };
        match outcome {
            Ok(result) => (record.status, record.result) = (Status::Succeeded, result),
            Err(error) => (record.status, record.error) = (Status::Failed, error),
        }
        // An agent that restarts would show the command as failed, which is safe.
        if let Err(error) = self.save() {
            warn!("writing {}: {error}", self.file().display());
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Writes the whole file or, if that fails, nothing.
    fn save(&self) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        whole_file::write(&self.file(), 0o600, text.as_bytes())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;

    fn record(id: &str) -> Record {
        let name = "execute_deploy_step".to_owned();
        Record { id: id.to_owned(), name, ..Record::default() }
    }

    pub(in super::super) fn session(token: &str) -> Session {
        Session {
            node_uuid: "f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb01".into(),
            token: Secret::new(token),
            heartbeat_timeout_s: 300,
            callback_url: "https://192.0.2.1:9999".into(),
            certificate: Certificate::new("192.0.2.1", SystemTime::now()).unwrap(),
        }
    }

    /// A journal in which one command has ended and another one runs.
    fn journal(directory: &Path) -> Journal {
        let mut journal = Journal::open(directory);
        journal.begin(session("t0ken-of-the-journal-test"), None).unwrap();
        journal.add(record("a")).unwrap();
        journal.end("a", Ok(json!({"deploy_steps": {}})));
        journal.add(record("b")).unwrap();
        journal
    }

    #[test]
    fn command_that_ran_when_the_agent_ended_is_failed_and_the_session_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let journal = journal(directory.path());
        let again = Journal::open(directory.path());
        assert!(again.session.is_some() && again.session == journal.session);
        assert_eq!(again.records[0], journal.records[0]);
        assert_eq!(again.records[1].status, Status::Failed);
        assert_eq!(again.records[1].error, lost("execute_deploy_step"));
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn damaged_file_gives_neither_token_nor_commands() {
        let directory = tempfile::tempdir().unwrap();
        let file = journal(directory.path()).file();
        let text = fs::read_to_string(&file).unwrap();
        for damaged in ["", "null", &text[..text.len() / 2], &text.replace("RUNNING", "DONE")] {
            fs::write(&file, damaged).unwrap();
            let again = Journal::open(directory.path());
            assert!(again.session.is_none() && again.records.is_empty(), "{damaged:.40}");
        }
    }

    #[test]
    fn command_does_not_start_if_the_file_cannot_be_written() {
        // A file in the place of the directory.
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut journal = Journal::open(file.path());
        assert!(journal.add(record("a")).is_err());
        assert!(journal.records.is_empty());
    }

    #[test]
    fn new_token_forgets_ended_commands_and_keeps_the_running_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = journal(directory.path());
        journal.begin(session("t0ken-of-another-boot"), None).unwrap();
        let ids: Vec<&str> = journal.records.iter().map(|record| record.id.as_str()).collect();
        assert_eq!(ids, ["b"]);
    }
}
