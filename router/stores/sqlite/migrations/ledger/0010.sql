-- A mark keeps what it teaches from, and so outlasts its request's row: no text. Marks are not deleted for their age; `tandem
-- wrong` and `tandem keys forget` delete them. A mark that was taken back has an empty `should_be`, so that `tandem tune` drops
-- what it taught. The columns are NULL for a mark whose row was gone already: it teaches nothing, and is deleted by age.
ALTER TABLE misjudged ADD COLUMN asked_at REAL;      -- when the request arrived
ALTER TABLE misjudged ADD COLUMN caller TEXT;
ALTER TABLE misjudged ADD COLUMN session TEXT;
ALTER TABLE misjudged ADD COLUMN client TEXT;
ALTER TABLE misjudged ADD COLUMN turn_kind TEXT;
ALTER TABLE misjudged ADD COLUMN tier TEXT;          -- the tier that served
ALTER TABLE misjudged ADD COLUMN decision TEXT;      -- as in `entries`, without what the person typed
ALTER TABLE misjudged ADD COLUMN places BLOB;        -- as in `places`; NULL if unknown
ALTER TABLE misjudged ADD COLUMN hashing INTEGER;    -- which hashing of words made these places
UPDATE misjudged SET (asked_at, caller, session, client, turn_kind, tier, decision) = (
        SELECT at, caller, session, client, turn_kind, tier,
            CASE WHEN typeof(decision) = 'text' AND json_valid(decision) THEN json_remove(decision, '$.person_text') END
        FROM entries WHERE id = request_id
    ),
    places = (SELECT places.places FROM places WHERE places.request_id = misjudged.request_id),
    hashing = 1;
UPDATE misjudged SET caller = (SELECT places.caller FROM places WHERE places.request_id = misjudged.request_id)
    WHERE caller IS NULL;
-- The places of marked turns are kept with their marks, so none is an exception here any more.
DROP TRIGGER IF EXISTS keep_newest_places;
CREATE TRIGGER keep_newest_places AFTER INSERT ON places BEGIN
    DELETE FROM places WHERE sequence <= NEW.sequence - 100;
    DELETE FROM places WHERE at < NEW.at - 86400;
END;
