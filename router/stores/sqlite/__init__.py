"""Stores on SQLite: for each file one thread that writes in batches, and reads that are awaited off the loop."""
