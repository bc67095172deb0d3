"""No store of sessions: they live as long as the process."""

from collections.abc import Sequence

from router.contract.stores import Versioned

_NOTHING = Versioned()


class NoSessions:
    """Keeps nothing: for a router without a ledger, and for dry runs."""

    is_shared = False

    async def load(self, key: str) -> Versioned:
        """Nothing."""
        return _NOTHING

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        """Nothing for each."""
        return [_NOTHING] * len(keys)

    def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
        """Nothing is kept, so nothing is newer."""
        return True

    async def close(self) -> None:
        """There is nothing to write."""
