"""No store of sessions: they live as long as the process."""


class NoSessions:
    """Keeps nothing: for a router without a ledger, and for dry runs."""

    async def load(self, key: str) -> bytes | None:
        """Nothing."""
        return None

    def save(self, key: str, at: float, state: bytes) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """There is nothing to write."""
