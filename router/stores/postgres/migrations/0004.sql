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
    body          BYTEA NOT NULL,
    bytes         BIGINT NOT NULL DEFAULT 0  -- what an ended job takes: its request, its response and its log
);
CREATE INDEX jobs_state ON tandem.jobs (state, caller);
CREATE INDEX jobs_caller ON tandem.jobs (caller, sequence);
CREATE INDEX jobs_ended ON tandem.jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_uncollected ON tandem.jobs (session, caller) WHERE ended_at IS NOT NULL AND NOT is_collected;
CREATE INDEX jobs_bytes ON tandem.jobs (caller, bytes);
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
-- Responses that their callers asked to have stored, with all that led to them. One without content was deleted.
CREATE TABLE tandem.responses (
    id      TEXT NOT NULL,
    caller  TEXT NOT NULL,
    target  TEXT NOT NULL,
    at      DOUBLE PRECISION NOT NULL,
    content BYTEA,
    PRIMARY KEY (id, caller)
);
CREATE INDEX responses_at ON tandem.responses (at);
CREATE INDEX responses_caller ON tandem.responses (caller);
-- Which responses hold an item: a later request may name the item instead of sending it.
CREATE TABLE tandem.items (
    id       TEXT NOT NULL,
    caller   TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (id, caller, response),
    FOREIGN KEY (response, caller) REFERENCES tandem.responses ON DELETE CASCADE
);
CREATE INDEX items_response ON tandem.items (response, caller);
-- The rows of every router's ledger, with the columns of its file (docs/reference/ledger.md). `sequence` is this table's own.
CREATE TABLE tandem.entries (
    sequence           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                 TEXT NOT NULL UNIQUE,
    at                 DOUBLE PRECISION NOT NULL,
    caller             TEXT NOT NULL,
    session            TEXT,
    turn_kind          TEXT,
    client             TEXT,
    dialect            TEXT NOT NULL,
    model              TEXT NOT NULL,
    streaming          BIGINT NOT NULL,
    outcome            TEXT NOT NULL,
    status             BIGINT NOT NULL,
    error              TEXT,
    tier               TEXT,
    target             TEXT,
    because            TEXT,
    score              DOUBLE PRECISION,
    decision           TEXT,
    attempts           TEXT NOT NULL,
    overhead_ms        DOUBLE PRECISION NOT NULL,
    ttft_ms            DOUBLE PRECISION,
    duration_ms        DOUBLE PRECISION NOT NULL,
    tokens_per_second  DOUBLE PRECISION,
    input_tokens       BIGINT,
    cached_tokens      BIGINT,
    output_tokens      BIGINT,
    reasoning_tokens   BIGINT,
    tokens_estimated   BIGINT,
    cost_usd           DOUBLE PRECISION,
    prompt_text        TEXT,
    answer_text        TEXT,
    key                TEXT,
    job                TEXT,
    replica            TEXT,
    worker             BIGINT
);
CREATE INDEX entries_at ON tandem.entries (at);
CREATE INDEX entries_caller ON tandem.entries (caller, at);
-- A name for this database, by which a ledger's file remembers what it has copied here: a new database gets all of it.
CREATE TABLE tandem.home (id TEXT NOT NULL);
INSERT INTO tandem.home VALUES (md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text));
