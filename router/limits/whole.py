"""Limits of a router that shares them with no other: its part of each is the whole limit, and there is nobody to ask."""

from collections.abc import Callable

from router.contract.allowance import Use


class WholePart:
    """A limit, all of which belongs to this router."""

    __slots__ = ("limit", "spent")
    is_blind = False
    held_elsewhere = slice = 0
    opens_in_seconds = asks_in_seconds = None

    def __init__(self, limit: int) -> None:
        self.limit, self.spent = limit, 0

    @property
    def allowed(self) -> int:
        return self.limit - self.spent

    reachable = allowed

    def ask(self, least: int, more: int = 0) -> None:
        """There is no more than the whole."""

    async def answered(self) -> bool:
        return False

    def close(self) -> None:
        """Nobody else could use it."""

    async def confirm(self) -> None:
        """There are no others."""

    def spend(self, units: int) -> None:
        self.spent += units

    def recall(self, units: int) -> None:
        self.spent = max(self.spent, units)


class Alone:
    """The allowance of a router that shares its limits with no other."""

    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> WholePart:
        return WholePart(limit)

    budget = part


ALONE = Alone()
