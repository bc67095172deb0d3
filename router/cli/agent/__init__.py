"""`tandem delegate --agent`: a coding agent works on a task in a worktree of its own, and its change is kept as a job."""
