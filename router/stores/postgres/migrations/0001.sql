-- One row for each request that is served in the background. Text is deleted with the row; the request itself when it ends.
CREATE TABLE tandem.jobs (
    sequence      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    caller        TEXT NOT NULL,
    at            DOUBLE PRECISION NOT NULL,
    state         TEXT NOT NULL,
    attempt       INTEGER NOT NULL DEFAULT 0,
    owner         TEXT NOT NULL DEFAULT '',
    leased_until  DOUBLE PRECISION NOT NULL DEFAULT 0,
    ended_at      DOUBLE PRECISION,
    is_cancelled  BOOLEAN NOT NULL DEFAULT FALSE,
    is_handed_out BOOLEAN NOT NULL DEFAULT FALSE,
    is_collected  BOOLEAN NOT NULL DEFAULT FALSE,
    key           TEXT,
    session       TEXT,
    title         TEXT NOT NULL,
    tier          TEXT NOT NULL,
    headers       TEXT NOT NULL,
    queued        BYTEA NOT NULL,
    response      BYTEA NOT NULL,
    body          BYTEA NOT NULL
);
CREATE INDEX jobs_state ON tandem.jobs (state, caller);
CREATE INDEX jobs_caller ON tandem.jobs (caller, sequence);
CREATE INDEX jobs_ended ON tandem.jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_uncollected ON tandem.jobs (session, caller) WHERE ended_at IS NOT NULL AND NOT is_collected;
-- The frames of an answer, several to a row. Numbers are those of the frames.
CREATE TABLE tandem.segments (
    job         BIGINT NOT NULL REFERENCES tandem.jobs ON DELETE CASCADE,
    first       BIGINT NOT NULL,
    last        BIGINT NOT NULL,
    attempt     INTEGER NOT NULL,
    has_content BOOLEAN NOT NULL,
    frames      BYTEA NOT NULL,
    PRIMARY KEY (job, first)
);
-- What webhooks are still to be sent, or could not be sent (is_dead). A row outlives its job until it is delivered.
CREATE TABLE tandem.outbox (
    id       TEXT PRIMARY KEY,
    job      TEXT NOT NULL,
    address  TEXT NOT NULL,
    event    TEXT NOT NULL,
    at       DOUBLE PRECISION NOT NULL,
    tries    INTEGER NOT NULL DEFAULT 0,
    next_at  DOUBLE PRECISION NOT NULL,
    is_dead  BOOLEAN NOT NULL DEFAULT FALSE,
    UNIQUE (job, address, event)
);
CREATE INDEX outbox_due ON tandem.outbox (is_dead, next_at);
