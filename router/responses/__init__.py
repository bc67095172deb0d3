"""State that clients rely on: stored responses and message threads, resumed, listed and compacted."""
