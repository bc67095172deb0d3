"""A caller's dialect on one side, a target's on the other: requests one way, answers the other. No I/O."""
