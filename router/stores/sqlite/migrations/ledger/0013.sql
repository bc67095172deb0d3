-- One row for each admitted request. Times are UTC seconds; durations come from a monotonic clock.
CREATE TABLE entries (
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
    answer_text        TEXT,                  -- only with ledger.keep_text
    key                TEXT,                  -- the id of the caller's key, which is no secret
    job                TEXT,                  -- the background job that it is an attempt of: the id of its response
    replica            TEXT,                  -- the router that wrote it (shared.replica)
    worker             INTEGER                -- no longer written
);
-- What the live page asks for, and `--since`: the newest rows, those of one session, and those that did not go well.
CREATE INDEX entries_at ON entries (at);
CREATE INDEX entries_session ON entries (session) WHERE session IS NOT NULL;
CREATE INDEX entries_outcome ON entries (outcome, at) WHERE outcome != 'SERVED';

-- What is remembered of a session: fingerprints, tiers, counts and times. No text, and an opaque key.
CREATE TABLE sessions (
    key    TEXT PRIMARY KEY,
    at     REAL NOT NULL,
    state  BLOB NOT NULL
) WITHOUT ROWID;

-- Turns that the person called misjudged (`tandem wrong`). No text. From `asked_at` on, and `places`: dropped by the next script.
CREATE TABLE misjudged (
    request_id  TEXT PRIMARY KEY,   -- the request that began the turn
    at          REAL NOT NULL,      -- when it was said
    should_be   TEXT NOT NULL,      -- fast or deep
    asked_at    REAL,
    caller      TEXT,
    session     TEXT,
    client      TEXT,
    turn_kind   TEXT,
    tier        TEXT,
    decision    TEXT,
    places      BLOB,
    hashing     INTEGER
) WITHOUT ROWID;
CREATE TABLE places (
    sequence    INTEGER PRIMARY KEY,
    request_id  TEXT NOT NULL,
    at          REAL NOT NULL,
    caller      TEXT NOT NULL,
    places      BLOB NOT NULL
);

-- How far the rows are copied to the database that routers share (`shared.postgres`). At most one row.
CREATE TABLE forwarded (
    home      TEXT PRIMARY KEY,   -- the database, by the name that it has given itself
    sequence  INTEGER NOT NULL,   -- the entries up to this one are copied
    lost      INTEGER NOT NULL    -- how many entries were deleted as too old, or refused, without having been copied
) WITHOUT ROWID;
-- The number of a deleted row is given out again where it was the newest: the next row must not count as copied.
CREATE TRIGGER forwarded_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE forwarded SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;

-- Sums of the hours that are over, for `tandem stats`, the page and budgets. The router makes them in the background; readers take
-- the rows themselves for all other hours.
CREATE TABLE hours (
    hour           INTEGER NOT NULL,  -- hours since 1970, by the arrival of a request
    caller         TEXT NOT NULL,
    key            TEXT,
    client         TEXT,
    tier           TEXT,
    target         TEXT,
    outcome        TEXT NOT NULL,
    calls          INTEGER NOT NULL,
    turns          INTEGER NOT NULL,  -- calls that began a turn in which a model worked
    input_tokens   INTEGER,
    output_tokens  INTEGER,
    cost_usd       REAL,
    cost_units     INTEGER,           -- in 1e-8 USD, each call rounded
    list_usd       REAL,
    unpriced       INTEGER NOT NULL,  -- calls that used tokens at unknown cost
    duration_ms    REAL NOT NULL,
    ttft_ms        REAL,
    firsts         INTEGER NOT NULL,  -- calls with a first token
    newest_at      REAL NOT NULL
);
CREATE INDEX hours_hour ON hours (hour, target, outcome, tier, calls, newest_at, caller);
CREATE INDEX hours_caller ON hours (caller, hour, target, outcome, tier, calls, newest_at);
CREATE INDEX hours_target ON hours (target, hour);
-- The same of whole days of the router's time zone: `hour` is the first one.
CREATE TABLE days AS SELECT *, 0 AS ends FROM hours WHERE 0;
CREATE INDEX days_hour ON days (hour, ends);
-- The calls of an hour to a target, for plots: triples of numbers of 8 bytes, the newest first: arrival (negative for an error),
-- `ttft_ms` and `tokens_per_second` (not a number for NULL).
CREATE TABLE hour_calls (
    hour    INTEGER NOT NULL,
    caller  TEXT NOT NULL,
    target  TEXT NOT NULL,
    calls   BLOB NOT NULL
);
CREATE INDEX hour_calls_hour ON hour_calls (hour, caller);
CREATE TABLE settled (
    until     INTEGER NOT NULL,  -- earlier hours have sums
    sequence  INTEGER NOT NULL   -- up to this entry: a later one of such an hour is not in them
);
INSERT INTO settled VALUES (0, 0);
-- Hours whose entries have changed since their sums were made.
CREATE TABLE stale_hours (
    hour    INTEGER NOT NULL,
    caller  TEXT NOT NULL,
    PRIMARY KEY (hour, caller)
) WITHOUT ROWID;
CREATE TRIGGER stale_deleted AFTER DELETE ON entries WHEN OLD.at < (SELECT until FROM settled) * 3600.0 BEGIN
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(OLD.at / 3600 AS INTEGER), OLD.caller);
END;
CREATE TRIGGER stale_changed AFTER UPDATE ON entries BEGIN
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(OLD.at / 3600 AS INTEGER), OLD.caller);
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(NEW.at / 3600 AS INTEGER), NEW.caller);
END;
CREATE TRIGGER settled_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE settled SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;

-- What each turn took, cost and saved (`router.past.worth`), made in the background. A call outside of a person's turn has a row
-- of its own.
CREATE TABLE turn_worth (
    sequence       INTEGER PRIMARY KEY,  -- of its first call
    session        TEXT,
    caller         TEXT NOT NULL,
    client         TEXT,                 -- of its first call, as are target and `at`
    target         TEXT,
    at             REAL NOT NULL,
    begins_at      REAL NOT NULL,        -- the earliest and the latest of its calls and of the next ask
    ends_at        REAL NOT NULL,
    idea           TEXT NOT NULL,        -- what it was about, if Tandem sent it to fast
    deep_target    TEXT NOT NULL,        -- which deep it was compared with, if `idea` is known
    redone         TEXT NOT NULL,        -- how that is known: marked, moved_up, asked_for_deep, asked_again
    is_on_fast     INTEGER NOT NULL,     -- 1 or 0
    fast_seconds   REAL NOT NULL,
    fast_usd       REAL NOT NULL,
    turns          INTEGER NOT NULL,     -- 1 for a person's turn
    fast_turns     INTEGER NOT NULL,
    calls          INTEGER NOT NULL,
    fast_calls     INTEGER NOT NULL,
    compared       INTEGER NOT NULL,     -- calls on fast with an estimate for deep
    failed         INTEGER NOT NULL,
    refused        INTEGER NOT NULL,
    priced         INTEGER NOT NULL,
    unpriced       INTEGER NOT NULL,
    seconds        REAL NOT NULL,
    usd            REAL NOT NULL,
    list_usd       REAL NOT NULL,
    saved_seconds  REAL NOT NULL,
    saved_usd      REAL NOT NULL
);
CREATE INDEX turn_worth_at ON turn_worth (at);
CREATE INDEX turn_worth_session ON turn_worth (session) WHERE session IS NOT NULL;
CREATE INDEX turn_worth_ends ON turn_worth (ends_at, begins_at)
    WHERE CAST(begins_at / 3600 AS INTEGER) < CAST(ends_at / 3600 AS INTEGER);
CREATE INDEX turn_worth_redone ON turn_worth (at) WHERE redone != '';
CREATE INDEX turn_worth_saved ON turn_worth (saved_seconds, at) WHERE is_on_fast AND saved_seconds > 0;
-- Sums of these by hour and by day of the router's time zone; both ends in hours since 1970.
CREATE TABLE span_worth (
    first INTEGER NOT NULL, ends INTEGER NOT NULL, caller TEXT NOT NULL, client TEXT, target TEXT, idea TEXT NOT NULL,
    deep_target TEXT NOT NULL, many INTEGER NOT NULL, turns INTEGER NOT NULL, fast_turns INTEGER NOT NULL,
    calls INTEGER NOT NULL, fast_calls INTEGER NOT NULL, compared INTEGER NOT NULL, failed INTEGER NOT NULL,
    refused INTEGER NOT NULL, priced INTEGER NOT NULL, unpriced INTEGER NOT NULL, seconds REAL NOT NULL, usd REAL NOT NULL,
    list_usd REAL NOT NULL, saved_seconds REAL NOT NULL, saved_usd REAL NOT NULL, marked INTEGER NOT NULL,
    moved_up INTEGER NOT NULL, asked_for_deep INTEGER NOT NULL, asked_again INTEGER NOT NULL, redone_seconds REAL NOT NULL,
    redone_usd REAL NOT NULL
);
CREATE INDEX span_worth_span ON span_worth (first, ends);
CREATE INDEX span_worth_caller ON span_worth (caller);
-- The spans whose sums are valid: a turn that goes takes those of its hour and day with it.
CREATE TABLE summed_spans (first INTEGER NOT NULL, ends INTEGER NOT NULL, PRIMARY KEY (first, ends)) WITHOUT ROWID;
CREATE TRIGGER unsum_deleted AFTER DELETE ON turn_worth BEGIN
    DELETE FROM summed_spans
    WHERE first BETWEEN CAST(OLD.at / 3600 AS INTEGER) - 26 AND CAST(OLD.at / 3600 AS INTEGER) AND ends > OLD.at / 3600;
END;
CREATE TRIGGER unsummed AFTER DELETE ON summed_spans BEGIN
    DELETE FROM span_worth WHERE first = OLD.first AND ends = OLD.ends;
END;
-- Sessions with entries or marks that have changed since, and the first and the last of these entries.
CREATE TABLE stale_turns (caller TEXT, session TEXT, first INTEGER, last INTEGER, UNIQUE (caller, session));
CREATE TRIGGER stale_turn_deleted AFTER DELETE ON entries BEGIN
    DELETE FROM turn_worth WHERE sequence = OLD.sequence AND OLD.session IS NULL;
    INSERT INTO stale_turns SELECT OLD.caller, OLD.session, OLD.sequence, OLD.sequence WHERE OLD.session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER stale_turn_changed AFTER UPDATE ON entries BEGIN
    INSERT INTO stale_turns VALUES (OLD.caller, OLD.session, OLD.sequence, OLD.sequence)
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
    INSERT INTO stale_turns VALUES (NEW.caller, NEW.session, NEW.sequence, NEW.sequence)
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER stale_turn_marked AFTER INSERT ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = NEW.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER stale_turn_marked_again AFTER UPDATE OF should_be ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = NEW.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER stale_turn_unmarked AFTER DELETE ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = OLD.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TABLE folded (sequence INTEGER NOT NULL);  -- up to this entry, turns have a row in `turn_worth`
INSERT INTO folded VALUES (0);
CREATE TRIGGER folded_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE folded SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;
