"""Pointing coding clients at the router. What is known of a client is data, in `clients/`; the code here knows file formats."""

KEY = "tandem"
"""What clients are given for a key, since most insist on one. The router asks for none."""
