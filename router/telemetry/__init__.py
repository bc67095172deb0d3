"""Log events, the line a person reads, and tasks that nobody loses."""
