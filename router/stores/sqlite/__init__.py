"""Stores on SQLite: one writing thread per file, and reads off the loop."""
