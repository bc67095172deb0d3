-- Turns that the person called misjudged (`tandem wrong`). No text.
CREATE TABLE IF NOT EXISTS misjudged (
    request_id  TEXT PRIMARY KEY,   -- the request that began the turn
    at          REAL NOT NULL,      -- when it was said
    should_be   TEXT NOT NULL       -- fast or deep
) WITHOUT ROWID;
