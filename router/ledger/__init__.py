"""Durable history in SQLite. One writer thread, batches, nothing of it on the request's path."""
