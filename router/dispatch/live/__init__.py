"""Live state of each target: pace, queue, limits, failures. Fed by facts, read by the decision."""
