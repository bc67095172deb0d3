"""Whose turn it is: identity, turn kinds, the person's words. What a client looks like is data, in `clients.py`."""
