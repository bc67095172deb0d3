"""Who keeps what must survive a restart of a session's memory."""

from typing import Protocol


class SessionStore(Protocol):
    """Keeps small records by a key that says nothing of the session. Saving never blocks and never fails the request."""

    def load(self, key: str) -> bytes | None:
        """One keyed read, on a miss."""
        ...

    def save(self, key: str, at: float, state: bytes) -> None:
        """Take a record, to be written soon."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...
