-- The same places are kept as before. One condition for number and age made every turn look at all of them: now the number is a
-- range of the key, and the age a range of an index.
CREATE INDEX IF NOT EXISTS places_by_age ON places (at);
DROP TRIGGER IF EXISTS keep_newest_places;
CREATE TRIGGER keep_newest_places AFTER INSERT ON places BEGIN
    DELETE FROM places WHERE sequence <= NEW.sequence - 100 AND request_id NOT IN (SELECT request_id FROM misjudged);
    DELETE FROM places WHERE at < NEW.at - 86400 AND request_id NOT IN (SELECT request_id FROM misjudged);
END;
