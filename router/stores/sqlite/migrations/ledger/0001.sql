-- One row for each admitted request. Times are UTC seconds; durations come from a monotonic clock.
CREATE TABLE IF NOT EXISTS entries (
    sequence           INTEGER PRIMARY KEY,
    id                 TEXT NOT NULL UNIQUE,  -- as in the header x-tandem-request-id
    at                 REAL NOT NULL,         -- when it arrived, seconds since 1970
    caller             TEXT NOT NULL,         -- who asked
    session            TEXT,                  -- the conversation it belongs to
    turn_kind          TEXT,                  -- ask, follow_up, tool_loop, side, compaction, subagent, prewarm
    client             TEXT,                  -- the client that was recognised
    dialect            TEXT NOT NULL,         -- chat, responses, messages, completions
    model              TEXT NOT NULL,         -- the name that was asked for
    streaming          INTEGER NOT NULL,      -- 1 or 0
    outcome            TEXT NOT NULL,         -- SERVED, REFUSED, FAILED, CUT_SHORT, ABANDONED
    status             INTEGER NOT NULL,      -- the HTTP status that the caller saw; 499 if it left first
    error              TEXT,                  -- the code of what went wrong
    tier               TEXT,                  -- fast or deep: of the target that served, or was tried last
    target             TEXT,                  -- who served, or was tried last
    because            TEXT,                  -- the decision in one sentence
    score              REAL,                  -- the chance that the turn was a long task
    decision           TEXT,                  -- the whole decision as JSON
    attempts           TEXT NOT NULL,         -- JSON: target, status, error, seconds for each
    overhead_ms        REAL NOT NULL,         -- our own time before the target was called
    ttft_ms            REAL,                  -- from arrival to the first token
    duration_ms        REAL NOT NULL,         -- from arrival to the end
    tokens_per_second  REAL,
    input_tokens       INTEGER,               -- with the cached ones
    cached_tokens      INTEGER,
    output_tokens      INTEGER,
    reasoning_tokens   INTEGER,
    tokens_estimated   INTEGER,               -- 1 where the target gave no usage
    cost_usd           REAL,                  -- NULL without a price
    prompt_text        TEXT,                  -- only with ledger.keep_text
    answer_text        TEXT                   -- only with ledger.keep_text
);

-- What is remembered of a session: fingerprints, tiers, counts and times. No text, and an opaque key.
CREATE TABLE IF NOT EXISTS sessions (
    key    TEXT PRIMARY KEY,
    at     REAL NOT NULL,
    state  BLOB NOT NULL
) WITHOUT ROWID;
