-- What `tandem wrong` teaches from: the places of a turn's words in the table of weights, which are hashes of them. Kept for the
-- newest 100 turns that people typed, within a day, and for turns that were marked. No text, but a word list can be matched
-- against it (docs/decisions/0025-the-personal-table.md); `ledger.keep_word_hashes: false` keeps none.
CREATE TABLE IF NOT EXISTS places (
    sequence    INTEGER PRIMARY KEY,
    request_id  TEXT NOT NULL,      -- the request that began the turn
    at          REAL NOT NULL,      -- when it arrived, seconds since 1970
    caller      TEXT NOT NULL,      -- who asked
    places      BLOB NOT NULL       -- little-endian numbers of 4 bytes
);
CREATE TRIGGER IF NOT EXISTS keep_newest_places AFTER INSERT ON places BEGIN
    DELETE FROM places WHERE (sequence <= NEW.sequence - 100 OR at < NEW.at - 86400)
        AND request_id NOT IN (SELECT request_id FROM misjudged);
END;
