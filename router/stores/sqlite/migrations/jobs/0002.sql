-- What an ended job takes on disk: its request, its response and its log. 0 while it waits or runs.
ALTER TABLE jobs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE jobs
    SET bytes = length(body) + length(response) + (SELECT ifnull(sum(length(frames)), 0) FROM segments WHERE job = sequence)
    WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_bytes ON jobs (caller, bytes);
