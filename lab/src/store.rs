//! The lab VIM's database, in `SQLite`: nodes, reports and their overviews, events, results, confirmed boots, answers by key, settings.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use formats::time::rfc3339_ms;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::overview::overview;

const SCHEMA: &str = include_str!("schema.sql");

/// The database; a lock serialises its users.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Mutex<Connection>,
    /// The number of changes. Raised after the write: a reader in between reads the new content again under the new
    /// number.
    changes: watch::Sender<u64>,
}

/// A database result.
pub(crate) type Stored<T> = rusqlite::Result<T>;

/// A report or a result as received.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// When it was received, by the VIM's clock: RFC 3339, UTC.
    pub(crate) received_at: String,
    /// Its JSON.
    pub(crate) body: Value,
}

/// A node's summary.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Its id.
    pub(crate) id: String,
    /// First contact, by the VIM's clock.
    pub(crate) first_seen: String,
    /// Last contact, by the VIM's clock.
    pub(crate) last_seen: String,
    /// Its last report.
    pub(crate) report: Option<Document>,
    /// Its last event.
    pub(crate) event: Option<Document>,
    /// Its last result, unless a report came after it.
    pub(crate) result: Option<Document>,
    /// The boots that the system of the last result has confirmed: their numbers, and what it sent.
    pub(crate) boots: Vec<(u8, Document)>,
}

impl Node {
    /// Returns the name in its report, under which its settings are stored even if it was given another.
    pub(crate) fn reported_name(&self) -> Option<&str> {
        self.report.as_ref()?.body["node_id"].as_str()
    }
}

impl Store {
    /// Opens a database file, or one in memory for `:memory:`.
    ///
    /// # Errors
    /// When the file cannot be opened or belongs to another program.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let context = |doing: &str| format!("{doing} the database {}", path.display());
        let connection = Connection::open(path).with_context(|| context("opening"))?;
        connection.execute_batch(SCHEMA).with_context(|| context("preparing"))?;
        Ok(Self { connection: Mutex::new(connection), changes: watch::Sender::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of changes. Its receivers are notified of each change except mere contacts.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    /// Returns a number that differs after each new report, and after the reports are forgotten.
    pub(crate) fn last_overview(&self) -> Stored<i64> {
        let sql = "SELECT coalesce(max(n), 0) FROM overviews";
        self.lock().query_row(sql, [], |row| row.get(0))
    }

    /// Records a contact with a node.
    pub(crate) fn touch(&self, node: &str) -> Stored<()> {
        let sql = "INSERT INTO nodes VALUES (?1, ?2, ?2)
                   ON CONFLICT (id) DO UPDATE SET last_seen = ?2";
        self.lock().execute(sql, params![node, now()])?;
        self.changes.send_if_modified(|n| {
            *n += 1;
            false
        });
        Ok(())
    }

    /// Stores a report, and its [`overview`]: pages of many nodes would take seconds to parse all reports.
    pub(crate) fn add_report(&self, node: &str, body: &Value) -> Stored<()> {
        self.touch(node)?;
        let (mut connection, received_at) = (self.lock(), now());
        let transaction = connection.transaction()?;
        add(&transaction, "reports", node, &received_at, body)?;
        add(&transaction, "overviews", node, &received_at, &overview(body))?;
        transaction.commit()?;
        self.changed();
        Ok(())
    }

    /// Stores a result.
    pub(crate) fn add_result(&self, node: &str, body: &Value) -> Stored<()> {
        self.touch(node)?;
        add(&self.lock(), "results", node, &now(), body)?;
        self.changed();
        Ok(())
    }

    /// Stores a boot of an installed system. Returns false if no result of the node has a token of this digest.
    pub(crate) fn add_boot(&self, node: &str, token: &str, n: &str, body: &Value) -> Stored<bool> {
        let sql =
            "INSERT OR REPLACE INTO boots SELECT ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM results
                   WHERE node = ?1 AND json_extract(body, '$.confirm.token_digest') = ?2)";
        let n_new = self.lock().execute(sql, params![node, token, n, now(), body])?;
        if n_new > 0 {
            self.touch(node)?;
            self.changed();
        }
        Ok(n_new > 0)
    }

    /// Adds LLDP neighbours to a node's last report, as if they had arrived with it. Returns whether there is one.
    pub(crate) fn add_neighbours(&self, node: &str, neighbours: &Value) -> Stored<bool> {
        self.touch(node)?;
        let connection = self.lock();
        let Some(mut report) = last(&connection, "reports", node)? else { return Ok(false) };
        let interfaces = report.body["network"]["interfaces"].as_array_mut();
        for interface in interfaces.into_iter().flatten().filter(|found| found.is_object()) {
            let name = interface["name"].as_str().unwrap_or_default();
            if let Some(received) = neighbours.get(name) {
                interface["lldp"] = received.clone();
            }
        }
        let sql = "UPDATE reports SET body = ?2
                   WHERE n = (SELECT max(n) FROM reports WHERE node = ?1)";
        connection.execute(sql, params![node, report.body])?;
        self.changed();
        Ok(true)
    }

    /// Stores events; ignores repeated ones, whose sequence and time are already stored.
    pub(crate) fn add_events(&self, node: &str, events: &[Value]) -> Stored<()> {
        self.touch(node)?;
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let mut n_new = 0;
        for event in events {
            let sql = "INSERT OR IGNORE INTO events (node, received_at, sequence, time, body)
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let sequence = event["sequence"].as_i64().unwrap_or(i64::MAX);
            let time = event["time"].as_str().unwrap_or_default();
            let row = params![node, now(), sequence, time, event];
            n_new += transaction.execute(sql, row)?;
        }
        transaction.commit()?;
        if n_new > 0 {
            self.changed();
        }
        Ok(())
    }

    /// Returns every node, the most recent contact first, each with an [`overview`] in place of its report.
    pub(crate) fn nodes(&self) -> Stored<Vec<Node>> {
        let sql = "SELECT id FROM nodes ORDER BY last_seen DESC, id LIMIT 1000";
        let ids = strings(&self.lock(), sql)?;
        // Each takes the lock anew, so that requests need not wait for the whole list.
        ids.iter().filter_map(|id| node(&self.lock(), id, "overviews").transpose()).collect()
    }

    /// A node's last report or result, by the name of its table; the result even if a report came later.
    pub(crate) fn last(&self, table: &str, node: &str) -> Stored<Option<Document>> {
        last(&self.lock(), table, node)
    }

    /// One node; `None` when it is unknown.
    pub(crate) fn node(&self, id: &str) -> Stored<Option<Node>> {
        node(&self.lock(), id, "reports")
    }

    /// Returns a node's last `limit` events, in the order received.
    pub(crate) fn events(&self, node: &str, limit: usize) -> Stored<Vec<Document>> {
        let connection = self.lock();
        let sql = "SELECT received_at, body FROM
                   (SELECT * FROM events WHERE node = ?1 ORDER BY n DESC LIMIT ?2) ORDER BY n";
        let mut statement = connection.prepare(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![node, limit], document)?;
        rows.collect()
    }

    /// Returns what a node sent: its last `report` or `result`, its `events`, or the `boots` of the system of its last result.
    pub(crate) fn sent(&self, node: &str, what: &str) -> Stored<Option<Value>> {
        let last = match what {
            "report" => self.last("reports", node)?,
            "result" => self.last("results", node)?,
            "boots" => {
                let numbered = |(n, found): (u8, Document)| json!({"n": n, "received_at": found.received_at, "boot": found.body});
                return Ok(Some(boots(&self.lock(), node)?.into_iter().map(numbered).collect()));
            }
            _ => {
                let events = self.events(node, 10_000)?;
                return Ok(Some(events.into_iter().map(|event| event.body).collect()));
            }
        };
        Ok(last.map(|document| document.body))
    }

    /// Counts the reports, events and results from a node.
    pub(crate) fn counts(&self, node: &str) -> Stored<[(&'static str, i64); 3]> {
        let sql = "SELECT (SELECT count(*) FROM reports WHERE node = ?1),
                   (SELECT count(*) FROM events WHERE node = ?1),
                   (SELECT count(*) FROM results WHERE node = ?1)";
        self.lock().query_row(sql, [node], |row| {
            Ok([("n_reports", row.get(0)?), ("n_events", row.get(1)?), ("n_results", row.get(2)?)])
        })
    }

    /// Returns the digest of the request that used a key before, and its answer.
    pub(crate) fn kept(&self, operation: &str, key: &str) -> Stored<Option<(String, Value)>> {
        let sql = "SELECT digest, answer FROM answers WHERE operation = ?1 AND key = ?2";
        let row =
            self.lock().query_row(sql, [operation, key], |row| Ok((row.get(0)?, row.get(1)?)));
        row.optional()
    }

    /// Stores the answer under its key.
    pub(crate) fn keep(
        &self,
        operation: &str,
        key: &str,
        digest: &str,
        answer: &Value,
    ) -> Stored<()> {
        let sql = "INSERT OR REPLACE INTO answers VALUES (?1, ?2, ?3, ?4)";
        self.lock().execute(sql, params![operation, key, digest, answer]).map(drop)
    }

    /// Returns a setting for a node or for all (`default`).
    pub(crate) fn setting(&self, scope: &str, kind: &str) -> Stored<Option<String>> {
        let sql = "SELECT value FROM settings WHERE scope = ?1 AND kind = ?2";
        self.lock().query_row(sql, [scope, kind], |row| row.get(0)).optional()
    }

    /// Returns true if a setting was changed after the node's last result.
    pub(crate) fn is_changed_since_result(&self, scope: &str, node: &str) -> Stored<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM settings WHERE scope = ?1 AND changed_at_n >=
                   (SELECT coalesce(max(n), 0) FROM results WHERE node = ?2))";
        self.lock().query_row(sql, [scope, node], |row| row.get(0))
    }

    /// Changes a setting; `None` removes it.
    pub(crate) fn set(&self, scope: &str, kind: &str, value: Option<&str>) -> Stored<()> {
        let set = "INSERT OR REPLACE INTO settings
                   VALUES (?1, ?2, ?3, (SELECT coalesce(max(n), 0) FROM results))";
        let remove = "DELETE FROM settings WHERE scope = ?1 AND kind = ?2";
        match value {
            None => self.lock().execute(remove, [scope, kind])?,
            Some(value) => self.lock().execute(set, [scope, kind, value])?,
        };
        self.changed();
        Ok(())
    }

    /// Changes a setting if it has another value.
    pub(crate) fn set_if_other(&self, scope: &str, kind: &str, value: &str) -> Stored<()> {
        if self.setting(scope, kind)?.as_deref() == Some(value) {
            return Ok(());
        }
        self.set(scope, kind, Some(value))
    }

    /// Forgets every node and every answer; settings stay.
    pub(crate) fn forget_nodes(&self) -> Stored<()> {
        self.lock().execute_batch(
            "DELETE FROM nodes; DELETE FROM reports; DELETE FROM overviews;
             DELETE FROM events; DELETE FROM results; DELETE FROM answers; DELETE FROM boots;",
        )?;
        self.changed();
        Ok(())
    }
}

/// The VIM's time now, e.g. `2026-11-20T10:00:00.123Z`; such texts sort as the times do.
pub(crate) fn now() -> String {
    rfc3339_ms(SystemTime::now())
}

/// One node, with its last report in this table; `None` when it is unknown.
fn node(connection: &Connection, id: &str, reports: &str) -> Stored<Option<Node>> {
    let sql = "SELECT first_seen, last_seen FROM nodes WHERE id = ?1";
    let seen = connection.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((first_seen, last_seen)) = seen.optional()? else { return Ok(None) };
    let report = match last(connection, reports, id)? {
        // The database of an older lab VIM has no overviews.
        None if reports == "overviews" => {
            let whole = last(connection, "reports", id)?;
            whole.map(|found| Document { body: overview(&found.body), ..found })
        }
        found => found,
    };
    let is_over = |result: &Document| {
        report.as_ref().is_none_or(|report| report.received_at <= result.received_at)
    };
    let result = last(connection, "results", id)?.filter(is_over);
    let event = last(connection, "events", id)?;
    let boots = boots(connection, id)?;
    Ok(Some(Node { id: id.to_owned(), first_seen, last_seen, report, event, result, boots }))
}

/// The boots that the system of the node's last result has confirmed, with their numbers.
fn boots(connection: &Connection, node: &str) -> Stored<Vec<(u8, Document)>> {
    let Some(result) = last(connection, "results", node)? else { return Ok(Vec::new()) };
    let token = result.body["confirm"]["token_digest"].as_str().unwrap_or_default();
    let sql = "SELECT received_at, body, n FROM boots WHERE token = ?1 ORDER BY n";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([token], |row| Ok((row.get(2)?, document(row)?)))?;
    rows.collect()
}

/// The first column of each row.
fn strings(connection: &Connection, sql: &str) -> Stored<Vec<String>> {
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

fn add(on: &Connection, table: &str, node: &str, received_at: &str, body: &Value) -> Stored<()> {
    let sql = format!("INSERT INTO {table} (node, received_at, body) VALUES (?1, ?2, ?3)");
    on.execute(&sql, params![node, received_at, body]).map(drop)
}

fn last(connection: &Connection, table: &str, node: &str) -> Stored<Option<Document>> {
    let sql =
        format!("SELECT received_at, body FROM {table} WHERE node = ?1 ORDER BY n DESC LIMIT 1");
    connection.query_row(&sql, [node], document).optional()
}

fn document(row: &Row<'_>) -> Stored<Document> {
    Ok(Document { received_at: row.get(0)?, body: row.get(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_sent_again_is_ignored_and_the_same_number_of_another_boot_is_not() {
        let store = Store::open(Path::new(":memory:")).unwrap();
        let event = |time: &str| json!({"sequence": 1, "time": time});
        store.add_events("n", &[event("T1"), event("T1")]).unwrap();
        assert_eq!(store.events("n", 10).unwrap().len(), 1);
        store.add_events("n", &[event("T1"), event("T2")]).unwrap();
        assert_eq!(store.events("n", 10).unwrap().len(), 2);
        assert_eq!(store.events("n", 1).unwrap()[0].body["time"], "T2");
    }
}
