"""Who sends a request."""

from msgspec import Struct


class Caller(Struct, frozen=True):
    """One who may use the router. What is kept of a request (sessions, responses, decisions) is kept for its caller alone."""

    name: str


LOCAL = Caller("local")
"""Whoever reaches a router that listens on loopback and asks for no key."""
