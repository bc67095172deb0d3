-- Which items a response holds: a request may name one of them instead of sending it again.
CREATE TABLE IF NOT EXISTS items (
    id        TEXT NOT NULL,
    caller    TEXT NOT NULL,
    response  TEXT NOT NULL,
    PRIMARY KEY (id, caller, response)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_response ON items (response, caller);
CREATE TRIGGER IF NOT EXISTS items_go AFTER DELETE ON transcripts BEGIN
    DELETE FROM items WHERE response = old.id AND caller = old.caller;
END;
