"""What outlives a request: entries, sessions and responses, in memory or on SQLite."""
