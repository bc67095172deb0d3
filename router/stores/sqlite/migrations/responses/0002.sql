-- One row for each response that a caller asked to have stored: what led to it, and the response itself.
CREATE TABLE transcripts (
    caller   TEXT NOT NULL,
    id       TEXT NOT NULL,
    target   TEXT NOT NULL,
    at       REAL NOT NULL,
    content  BLOB NOT NULL,
    UNIQUE (id, caller)
);
CREATE INDEX transcripts_at ON transcripts (at);
-- Which items a response holds: a request may name one of them instead of sending it again.
CREATE TABLE items (
    id        TEXT NOT NULL,
    caller    TEXT NOT NULL,
    response  TEXT NOT NULL,
    PRIMARY KEY (id, caller, response)
) WITHOUT ROWID;
CREATE INDEX items_response ON items (response, caller);
CREATE TRIGGER items_go AFTER DELETE ON transcripts BEGIN
    DELETE FROM items WHERE response = old.id AND caller = old.caller;
END;
