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
