"""State that clients rely on: responses and message threads to continue from, kept, resumed, listed and compacted."""
