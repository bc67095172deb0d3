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
