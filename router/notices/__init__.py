"""What is broken now, in one line each, and who is told."""
