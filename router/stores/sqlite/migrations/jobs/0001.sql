-- One row for each request that is served in the background. Text is deleted with the row; the request itself when it ends.
CREATE TABLE IF NOT EXISTS jobs (
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
    body          BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_state ON jobs (state, caller);
CREATE INDEX IF NOT EXISTS jobs_caller ON jobs (caller, sequence);
CREATE INDEX IF NOT EXISTS jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_uncollected ON jobs (session, caller) WHERE ended_at IS NOT NULL AND is_collected = 0;
-- The frames of an answer, several to a row. Numbers are those of the frames.
CREATE TABLE IF NOT EXISTS segments (
    job         INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    has_content INTEGER NOT NULL,
    frames      BLOB NOT NULL,
    UNIQUE (job, first)
);
CREATE TRIGGER IF NOT EXISTS segments_go AFTER DELETE ON jobs BEGIN
    DELETE FROM segments WHERE job = old.sequence;
END;
-- What webhooks are still to be told, or could not be told (is_dead). A row outlives its job until it is delivered.
CREATE TABLE IF NOT EXISTS outbox (
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
CREATE INDEX IF NOT EXISTS outbox_due ON outbox (is_dead, next_at);
