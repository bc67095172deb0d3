"""Identifies turns: client, session, kind, and the person's words. What clients look like is data, in `clients`."""
