-- The lab VIM's database. Bodies are JSON; times are texts that sort as the times do.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS nodes (
    id TEXT PRIMARY KEY, first_seen TEXT NOT NULL, last_seen TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS reports (
    n INTEGER PRIMARY KEY, node TEXT NOT NULL, received_at TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS reports_of ON reports (node, n);
-- The parts of reports that pages about many nodes show.
CREATE TABLE IF NOT EXISTS overviews (
    n INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, received_at TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS overviews_of ON overviews (node, n);
CREATE TABLE IF NOT EXISTS events (
    n INTEGER PRIMARY KEY, node TEXT NOT NULL, received_at TEXT NOT NULL, sequence INTEGER NOT NULL,
    time TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (node, sequence, time)) STRICT;
CREATE TABLE IF NOT EXISTS results (
    n INTEGER PRIMARY KEY, node TEXT NOT NULL, received_at TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS results_of ON results (node, n);
-- The boots that installed systems have confirmed, by the digest of the token of their install.
CREATE TABLE IF NOT EXISTS boots (
    token TEXT NOT NULL, n INTEGER NOT NULL, received_at TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (token, n)) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    operation TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (operation, key)) STRICT;
CREATE TABLE IF NOT EXISTS settings (
    scope TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL, changed_at_n INTEGER NOT NULL,
    PRIMARY KEY (scope, kind)) STRICT;
