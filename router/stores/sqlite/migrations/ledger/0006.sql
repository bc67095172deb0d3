-- What the live page asks for, and `--since`: the newest rows, those of one caller, session or target, and those that did not go
-- well. Those by target and caller hold all that a plot needs, so that a plot of a week reads none of the rows themselves.
CREATE INDEX IF NOT EXISTS entries_at ON entries (at);
CREATE INDEX IF NOT EXISTS entries_caller ON entries (caller, at, target, tier, outcome, ttft_ms, tokens_per_second);
CREATE INDEX IF NOT EXISTS entries_session ON entries (session) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_target ON entries (target, at, outcome, ttft_ms, tokens_per_second) WHERE target IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_outcome ON entries (outcome, at) WHERE outcome != 'SERVED';
