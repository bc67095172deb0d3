-- What each turn took, cost and saved (`router.past.worth`), made in the background. A call outside of a person's turn has a row
-- of its own.
CREATE TABLE IF NOT EXISTS turn_worth (
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
CREATE INDEX IF NOT EXISTS turn_worth_at ON turn_worth (at);
CREATE INDEX IF NOT EXISTS turn_worth_session ON turn_worth (session) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS turn_worth_ends ON turn_worth (ends_at, begins_at)
    WHERE CAST(begins_at / 3600 AS INTEGER) < CAST(ends_at / 3600 AS INTEGER);
CREATE INDEX IF NOT EXISTS turn_worth_redone ON turn_worth (at) WHERE redone != '';
CREATE INDEX IF NOT EXISTS turn_worth_saved ON turn_worth (saved_seconds, at) WHERE is_on_fast AND saved_seconds > 0;
-- Sums of these by hour and by day of the router's time zone; both ends in hours since 1970.
CREATE TABLE IF NOT EXISTS span_worth (
    first INTEGER NOT NULL, ends INTEGER NOT NULL, caller TEXT NOT NULL, client TEXT, target TEXT, idea TEXT NOT NULL,
    deep_target TEXT NOT NULL, many INTEGER NOT NULL, turns INTEGER NOT NULL, fast_turns INTEGER NOT NULL,
    calls INTEGER NOT NULL, fast_calls INTEGER NOT NULL, compared INTEGER NOT NULL, failed INTEGER NOT NULL,
    refused INTEGER NOT NULL, priced INTEGER NOT NULL, unpriced INTEGER NOT NULL, seconds REAL NOT NULL, usd REAL NOT NULL,
    list_usd REAL NOT NULL, saved_seconds REAL NOT NULL, saved_usd REAL NOT NULL, marked INTEGER NOT NULL,
    moved_up INTEGER NOT NULL, asked_for_deep INTEGER NOT NULL, asked_again INTEGER NOT NULL, redone_seconds REAL NOT NULL,
    redone_usd REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS span_worth_span ON span_worth (first, ends);
CREATE INDEX IF NOT EXISTS span_worth_caller ON span_worth (caller);
-- The spans whose sums are valid: a turn that goes takes those of its hour and day with it.
CREATE TABLE IF NOT EXISTS summed_spans (first INTEGER NOT NULL, ends INTEGER NOT NULL, PRIMARY KEY (first, ends)) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS unsum_deleted AFTER DELETE ON turn_worth BEGIN
    DELETE FROM summed_spans
    WHERE first BETWEEN CAST(OLD.at / 3600 AS INTEGER) - 26 AND CAST(OLD.at / 3600 AS INTEGER) AND ends > OLD.at / 3600;
END;
CREATE TRIGGER IF NOT EXISTS unsummed AFTER DELETE ON summed_spans BEGIN
    DELETE FROM span_worth WHERE first = OLD.first AND ends = OLD.ends;
END;
-- Sessions with entries or marks that have changed since, and the first and the last of these entries.
CREATE TABLE IF NOT EXISTS stale_turns (caller TEXT, session TEXT, first INTEGER, last INTEGER, UNIQUE (caller, session));
CREATE TRIGGER IF NOT EXISTS stale_turn_deleted AFTER DELETE ON entries BEGIN
    DELETE FROM turn_worth WHERE sequence = OLD.sequence AND OLD.session IS NULL;
    INSERT INTO stale_turns SELECT OLD.caller, OLD.session, OLD.sequence, OLD.sequence WHERE OLD.session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER IF NOT EXISTS stale_turn_changed AFTER UPDATE ON entries BEGIN
    INSERT INTO stale_turns VALUES (OLD.caller, OLD.session, OLD.sequence, OLD.sequence)
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
    INSERT INTO stale_turns VALUES (NEW.caller, NEW.session, NEW.sequence, NEW.sequence)
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER IF NOT EXISTS stale_turn_marked AFTER INSERT ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = NEW.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER IF NOT EXISTS stale_turn_marked_again AFTER UPDATE OF should_be ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = NEW.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TRIGGER IF NOT EXISTS stale_turn_unmarked AFTER DELETE ON misjudged BEGIN
    INSERT INTO stale_turns SELECT caller, session, sequence, sequence FROM entries
        WHERE id = OLD.request_id AND session IS NOT NULL
        ON CONFLICT (caller, session) DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last);
END;
CREATE TABLE IF NOT EXISTS folded (sequence INTEGER NOT NULL);  -- up to this entry, turns have a row in `turn_worth`
INSERT INTO folded SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM folded);
CREATE TRIGGER IF NOT EXISTS folded_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE folded SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;
