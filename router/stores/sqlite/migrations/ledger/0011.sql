-- The places of the newest 100 turns of each caller, within a day, are in the router's memory, and written when a turn is marked,
-- at a reload and at the end. What is too much is deleted then, so no turn pays for it.
DROP TRIGGER IF EXISTS keep_newest_places;
DROP INDEX IF EXISTS places_by_age;
