-- Sums of the hours that are over, for `tandem stats`, the page and budgets. The router makes them in the background; readers take
-- the rows themselves for all other hours. They replace the indexes by caller and by target, which every request paid for.
CREATE TABLE IF NOT EXISTS hours (
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
CREATE INDEX IF NOT EXISTS hours_hour ON hours (hour, target, outcome, tier, calls, newest_at, caller);
CREATE INDEX IF NOT EXISTS hours_caller ON hours (caller, hour, target, outcome, tier, calls, newest_at);
CREATE INDEX IF NOT EXISTS hours_target ON hours (target, hour);
-- The same of whole days of the router's time zone: `hour` is the first one.
CREATE TABLE IF NOT EXISTS days AS SELECT *, 0 AS ends FROM hours WHERE 0;
CREATE INDEX IF NOT EXISTS days_hour ON days (hour, ends);
-- The calls of an hour to a target, for plots: triples of numbers of 8 bytes, the newest first: arrival (negative for an error),
-- `ttft_ms` and `tokens_per_second` (not a number for NULL).
CREATE TABLE IF NOT EXISTS hour_calls (
    hour    INTEGER NOT NULL,
    caller  TEXT NOT NULL,
    target  TEXT NOT NULL,
    calls   BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS hour_calls_hour ON hour_calls (hour, caller);
CREATE TABLE IF NOT EXISTS settled (
    until     INTEGER NOT NULL,  -- earlier hours have sums
    sequence  INTEGER NOT NULL   -- up to this entry: a later one of such an hour is not in them
);
INSERT INTO settled SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM settled);
-- Hours whose entries have changed since their sums were made.
CREATE TABLE IF NOT EXISTS stale_hours (
    hour    INTEGER NOT NULL,
    caller  TEXT NOT NULL,
    PRIMARY KEY (hour, caller)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS stale_deleted AFTER DELETE ON entries WHEN OLD.at < (SELECT until FROM settled) * 3600.0 BEGIN
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(OLD.at / 3600 AS INTEGER), OLD.caller);
END;
CREATE TRIGGER IF NOT EXISTS stale_changed AFTER UPDATE ON entries BEGIN
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(OLD.at / 3600 AS INTEGER), OLD.caller);
    INSERT OR IGNORE INTO stale_hours VALUES (CAST(NEW.at / 3600 AS INTEGER), NEW.caller);
END;
CREATE TRIGGER IF NOT EXISTS settled_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE settled SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;
DROP INDEX IF EXISTS entries_caller;
DROP INDEX IF EXISTS entries_target;
