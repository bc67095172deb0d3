-- The id of the key that the caller used, which is no secret. NULL where callers need no key.
ALTER TABLE entries ADD COLUMN key TEXT;
