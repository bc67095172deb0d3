"""Who sends a request, and in which session."""

from msgspec import Struct


class Caller(Struct, frozen=True):
    """One who may use the router. What is kept of a request (sessions, responses, decisions) is kept for its caller alone."""

    name: str


LOCAL = Caller("local")
"""Everyone who reaches a router that listens on loopback and asks for no key; and commands of the router's own user."""

ANYONE = Caller("anyone")
"""Who asks for a page that needs no key, where others do."""


class SessionKey(Struct, frozen=True, cache_hash=True):
    """One session of one caller: what is kept or shared by session goes by this, so that no caller meets another's."""

    caller: Caller
    session: str
    number: int = 0
    """Which one, of several guessed sessions that began with the same words."""

    def __str__(self) -> str:
        text = f"{self.caller.name}\0{self.session}"
        return f"{text}\0{self.number}" if self.number else text
