"""Translation between a caller's dialect and a target's."""
