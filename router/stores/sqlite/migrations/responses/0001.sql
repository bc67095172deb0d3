-- One row for each response that a caller asked to have stored: what led to it, and the response itself.
CREATE TABLE IF NOT EXISTS transcripts (
    caller   TEXT NOT NULL,
    id       TEXT NOT NULL,
    target   TEXT NOT NULL,
    at       REAL NOT NULL,
    content  BLOB NOT NULL,
    UNIQUE (id, caller)
);
CREATE INDEX IF NOT EXISTS transcripts_at ON transcripts (at);
