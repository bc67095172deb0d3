-- Which of several routers wrote a row: the name of the router (`shared.replica`), and the number of its worker. NULL where
-- nothing is shared.
ALTER TABLE entries ADD COLUMN replica TEXT;
ALTER TABLE entries ADD COLUMN worker INTEGER;
-- How far the rows are copied to the database that routers share (`shared.postgres`). At most one row.
CREATE TABLE IF NOT EXISTS forwarded (
    home      TEXT PRIMARY KEY,   -- the database, by the name that it has given itself
    sequence  INTEGER NOT NULL,   -- the entries up to this one are copied
    lost      INTEGER NOT NULL    -- how many entries were deleted as too old, or refused, without having been copied
) WITHOUT ROWID;
-- The number of a deleted row is given out again where it was the newest: the next row must not count as copied.
CREATE TRIGGER IF NOT EXISTS forwarded_again AFTER DELETE ON entries
    WHEN OLD.sequence > coalesce((SELECT max(sequence) FROM entries), 0) BEGIN
    UPDATE forwarded SET sequence = min(sequence, coalesce((SELECT max(sequence) FROM entries), 0));
END;
