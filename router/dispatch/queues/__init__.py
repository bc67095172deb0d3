"""The quotas of targets: what was sent in the last minute, whose turn it is, and what a caller sees who waits for it."""
