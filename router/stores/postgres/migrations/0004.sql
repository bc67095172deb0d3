-- What an ended job takes on disk: its request, its response and its log. 0 while it waits or runs, and for jobs that older releases end.
ALTER TABLE tandem.jobs ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
CREATE INDEX jobs_bytes ON tandem.jobs (caller, bytes);
