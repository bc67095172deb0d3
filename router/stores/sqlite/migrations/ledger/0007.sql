-- The background job that a request is an attempt of: the id of its response. NULL for all others.
ALTER TABLE entries ADD COLUMN job TEXT;
