"""Log events, the line a person reads, and tasks that are held until they end."""
