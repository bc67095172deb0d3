"""`tandem delegate --agent`: a coding agent works in its own worktree, and its change is kept as a job."""
