-- One event stream per session, as blobs in rowid order: a commit appends one blob per session, each pointing back to
-- that session's previous one. No row per event, and no index ordered by session on the hot path.
CREATE TABLE sessions (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    native     TEXT,
    body       TEXT NOT NULL
) STRICT;

CREATE TABLE heads (
    session INTEGER PRIMARY KEY,
    last    INTEGER NOT NULL,
    blob    INTEGER NOT NULL,
    tail    INTEGER NOT NULL
) STRICT;

CREATE TABLE blobs (
    id       INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    merged   INTEGER NOT NULL,
    events   BLOB NOT NULL
) STRICT;

-- Holds merged blobs only, so the hot path never touches it.
CREATE INDEX blobs_merged ON blobs (session, first) WHERE merged = 1;

CREATE TABLE tasks (
    id         TEXT PRIMARY KEY,
    session    TEXT NOT NULL,
    state      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    body       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_by_session ON tasks (session, created_ms);
CREATE INDEX tasks_unsettled ON tasks (created_ms) WHERE state <> 'settled';

CREATE TABLE interactions (
    task TEXT NOT NULL,
    id   TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE runtimes (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    consumed   INTEGER NOT NULL DEFAULT 0,
    discarding INTEGER NOT NULL DEFAULT 0,
    snapshot   BLOB,
    body       TEXT NOT NULL
) STRICT;

CREATE TABLE outbox (
    runtime TEXT NOT NULL,
    number  INTEGER NOT NULL,
    ends    INTEGER NOT NULL,
    bytes   BLOB NOT NULL,
    PRIMARY KEY (runtime, number)
) STRICT, WITHOUT ROWID;
