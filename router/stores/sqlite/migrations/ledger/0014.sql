-- Nothing is fitted to marked turns any more: a mark is the outcome of its turn. The hashes of words go.
PRAGMA secure_delete = ON;
DROP TABLE IF EXISTS places;
ALTER TABLE misjudged DROP COLUMN asked_at;
ALTER TABLE misjudged DROP COLUMN caller;
ALTER TABLE misjudged DROP COLUMN session;
ALTER TABLE misjudged DROP COLUMN client;
ALTER TABLE misjudged DROP COLUMN turn_kind;
ALTER TABLE misjudged DROP COLUMN tier;
ALTER TABLE misjudged DROP COLUMN decision;
ALTER TABLE misjudged DROP COLUMN places;
ALTER TABLE misjudged DROP COLUMN hashing;
DELETE FROM misjudged WHERE should_be = '';
