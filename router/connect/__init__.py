"""Pointing coding clients at the router. Clients are data, in `clients/`; the code knows only file formats."""

KEY = "tandem"
"""The key for clients that insist on one, if the router asks for none."""
