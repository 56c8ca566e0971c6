//! Keeps the state that must survive a crash of the agent: the token of this boot, the certificate, and every command
//! with its outcome.
//!
//! Ironic reads the list of commands at each heartbeat. An empty list in the middle of a deployment means to it that the
//! step is done, and it boots a disk that holds half an image. So the list lies in a file in `/run`, a command is in it
//! before it starts, and one that was running when the agent ended is shown as failed.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tracing::warn;

use super::certificate::Certificate;
use crate::bounded;
use crate::secret::Secret;
use crate::whole_file;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most commands that are kept; the oldest that have ended are dropped.
const MAX_COMMANDS: usize = 64;
/// The name of the file in the agent's directory.
const FILE: &str = "ironic-agent.json";

/// A command of Ironic: a record as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Running,
    Succeeded,
    Failed,
}

/// What Ironic knows of this agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) node_uuid: String,
    #[serde(serialize_with = "exposed", deserialize_with = "secret")]
    pub(super) token: Secret,
    pub(super) heartbeat_timeout_s: u64,
    pub(super) callback_url: String,
    pub(super) certificate: Certificate,
}

fn exposed<S: Serializer>(token: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose())
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    session: Option<Cow<'a, Session>>,
    commands: Cow<'a, [Record]>,
}

/// The commands and the session, and their file.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    pub(super) session: Option<Session>,
    pub(super) records: Vec<Record>,
}

impl Journal {
    /// Reads the file of an agent that ended in this boot, if there is one. `lost` is the error of a command that was
    /// running then.
    pub(super) fn open(directory: &Path, lost: impl Fn(&str) -> Value) -> Self {
        let mut journal =
            Self { directory: directory.to_owned(), session: None, records: Vec::new() };
        let path = journal.file();
        if !path.exists() {
            return journal;
        }
        let found = bounded::read_file(&path, MAX_BYTES).ok();
        let found = found.and_then(|bytes| serde_json::from_slice::<Saved<'_>>(&bytes).ok());
        if let Some(Saved { session: Some(session), commands }) = found {
            journal.session = Some(session.into_owned());
            journal.records = commands.into_owned();
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

    /// Begins a session with the outcome of a step whose record is lost, if there was one.
    ///
    /// # Errors
    /// The file cannot be written; the session begins all the same.
    pub(super) fn begin(&mut self, session: Session, lost: Option<Record>) -> io::Result<()> {
        self.session = Some(session);
        self.records.extend(lost);
        self.save()
    }

    /// Goes on with another token. Commands that ended under the old one belong to another deployment.
    ///
    /// # Errors
    /// The file cannot be written; the session changes all the same.
    pub(super) fn replace_session(&mut self, session: Session) -> io::Result<()> {
        self.session = Some(session);
        self.records.retain(|record| record.status == Status::Running);
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
        let session = self.session.as_ref().map(Cow::Borrowed);
        let saved = Saved { session, commands: Cow::Borrowed(&self.records) };
        let text = serde_json::to_string(&saved)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        whole_file::write(&self.file(), 0o600, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("rci-journal-{name}-{}", std::process::id()))
    }

    fn lost(name: &str) -> Value {
        json!({"details": format!("lost {name}")})
    }

    fn record(id: &str, status: Status) -> Record {
        let name = "execute_deploy_step".to_owned();
        Record { id: id.to_owned(), name, status, error: Value::Null, result: Value::Null }
    }

    fn session() -> Session {
        Session {
            node_uuid: "f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb01".into(),
            token: Secret::new("t0ken-of-the-journal-test"),
            heartbeat_timeout_s: 300,
            callback_url: "https://192.0.2.1:9999".into(),
            certificate: Certificate::new("192.0.2.1", SystemTime::now()).unwrap(),
        }
    }

    #[test]
    fn command_that_ran_when_the_agent_ended_is_failed_and_the_session_is_the_same() {
        let directory = directory("lost");
        let mut journal = Journal::open(&directory, lost);
        journal.begin(session(), None).unwrap();
        journal.add(record("a", Status::Running)).unwrap();
        journal.end("a", Ok(json!({"deploy_steps": {}})));
        journal.add(record("b", Status::Running)).unwrap();
        let again = Journal::open(&directory, lost);
        assert!(again.session.is_some() && again.session == journal.session);
        assert_eq!(again.records[0], journal.records[0]);
        assert_eq!(again.records[1].status, Status::Failed);
        assert_eq!(again.records[1].error["details"], "lost execute_deploy_step");
        let mode = fs::metadata(directory.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn damaged_file_gives_neither_token_nor_commands() {
        let directory = directory("damaged");
        let mut journal = Journal::open(&directory, lost);
        journal.begin(session(), None).unwrap();
        journal.add(record("a", Status::Running)).unwrap();
        let text = fs::read_to_string(directory.join(FILE)).unwrap();
        for damaged in ["", "null", &text[..text.len() / 2], &text.replace("RUNNING", "DONE")] {
            fs::write(directory.join(FILE), damaged).unwrap();
            let again = Journal::open(&directory, lost);
            assert!(again.session.is_none() && again.records.is_empty(), "{damaged:.40}");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn command_does_not_start_if_the_file_cannot_be_written() {
        let directory = directory("full");
        fs::create_dir_all(directory.parent().unwrap()).unwrap();
        // A file in the place of the directory.
        fs::write(&directory, "").unwrap();
        let mut journal = Journal::open(&directory, lost);
        assert!(journal.add(record("a", Status::Running)).is_err());
        assert!(journal.records.is_empty());
        fs::remove_file(directory).unwrap();
    }

    #[test]
    fn new_token_forgets_ended_commands_and_keeps_the_running_one() {
        let directory = directory("session");
        let mut journal = Journal::open(&directory, lost);
        journal.add(record("a", Status::Running)).unwrap();
        journal.end("a", Ok(Value::Null));
        journal.add(record("b", Status::Running)).unwrap();
        journal.begin(session(), None).unwrap();
        assert_eq!(journal.records.len(), 2);
        journal.replace_session(session()).unwrap();
        let ids: Vec<&str> = journal.records.iter().map(|record| record.id.as_str()).collect();
        assert_eq!(ids, ["b"]);
        fs::remove_dir_all(directory).unwrap();
    }
}
