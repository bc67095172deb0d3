"""State that clients rely on: stored responses, resumed, listed and compacted."""
