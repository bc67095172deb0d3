"""`RequestView` and turn → `Signals`: measured facts, each cheap, each may be unknown."""
