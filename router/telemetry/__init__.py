"""Log events, and the line that a person reads."""
