"""Stores of entries, sessions, responses and jobs: in memory, on SQLite, or shared by several routers."""
