-- One row for each request that is served in the background. Text is deleted with the row; the request itself when it ends.
CREATE TABLE jobs (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    caller        TEXT NOT NULL,
    at            REAL NOT NULL,
    state         TEXT NOT NULL,
    attempt       INTEGER NOT NULL DEFAULT 0,
    owner         TEXT NOT NULL DEFAULT '',
    leased_until  REAL NOT NULL DEFAULT 0,
    ended_at      REAL,
    is_cancelled  INTEGER NOT NULL DEFAULT 0,
    is_handed_out INTEGER NOT NULL DEFAULT 0,
    is_collected  INTEGER NOT NULL DEFAULT 0,
    key           TEXT,
    session       TEXT,
    title         TEXT NOT NULL,
    tier          TEXT NOT NULL,
    headers       TEXT NOT NULL,
    queued        BLOB NOT NULL,
    response      BLOB NOT NULL,
    body          BLOB NOT NULL,
    bytes         INTEGER NOT NULL DEFAULT 0  -- what an ended job takes on disk; 0 while it waits or runs
);
CREATE INDEX jobs_state ON jobs (state, caller);
CREATE INDEX jobs_caller ON jobs (caller, sequence);
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_uncollected ON jobs (session, caller) WHERE ended_at IS NOT NULL AND is_collected = 0;
CREATE INDEX jobs_bytes ON jobs (caller, bytes);
-- The frames of an answer, several to a row. Numbers are those of the frames.
CREATE TABLE segments (
    job         INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    has_content INTEGER NOT NULL,
    frames      BLOB NOT NULL,
    UNIQUE (job, first)
);
CREATE TRIGGER segments_go AFTER DELETE ON jobs BEGIN
    DELETE FROM segments WHERE job = old.sequence;
END;
-- What webhooks are still to be told, or could not be told (is_dead). A row outlives its job until it is delivered.
CREATE TABLE outbox (
    id       TEXT PRIMARY KEY,
    job      TEXT NOT NULL,
    address  TEXT NOT NULL,
    event    TEXT NOT NULL,
    at       REAL NOT NULL,
    tries    INTEGER NOT NULL DEFAULT 0,
    next_at  REAL NOT NULL,
    is_dead  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (job, address, event)
);
CREATE INDEX outbox_due ON outbox (is_dead, next_at);
