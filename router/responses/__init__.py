"""State that Responses clients rely on: responses to continue from, kept, resumed, listed and compacted."""
