"""Stores that end with the process."""
