-- The same places are kept as before. One condition for number and age made every turn look at all of them: now the number is a
-- range of the key, and ages are looked at only while the oldest is nearly a day old. An hour is left for rows that are out of
-- order, since a request gets its row when it ends.
DROP TRIGGER IF EXISTS keep_newest_places;
CREATE TRIGGER keep_newest_places AFTER INSERT ON places BEGIN
    DELETE FROM places WHERE sequence <= NEW.sequence - 100 AND request_id NOT IN (SELECT request_id FROM misjudged);
END;
CREATE TRIGGER IF NOT EXISTS forget_old_places AFTER INSERT ON places
    WHEN (SELECT at FROM places ORDER BY sequence LIMIT 1) < NEW.at - 82800 BEGIN
    DELETE FROM places WHERE at < NEW.at - 86400 AND request_id NOT IN (SELECT request_id FROM misjudged);
END;
