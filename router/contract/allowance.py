"""Limits that several routers share: each holds a part, and the parts never exceed the limit.

A router may use its part without asking, even while the store is away. What was used within the last minute cannot be passed
on, so no minute exceeds the limit, whichever routers used it. The only store is `stores/valkey/allowance.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Struct


class Left(NamedTuple):
    """What is left of a caller's limit, which counts `requests` or `tokens` of a minute."""

    kind: str
    limit: int
    remaining: int
    reset_seconds: float
    """Until nothing of it is used any more."""


class Use(Struct, frozen=True):
    """How much of its part a router uses now, and seconds until some of it is free, if known."""

    units: int
    frees_in_seconds: float | None = None


class Part(Protocol):
    limit: int

    @property
    def is_blind(self) -> bool:
        """Whether the store is away."""
        ...

    @property
    def allowed(self) -> int:
        """How much this router may use, including what it uses now."""
        ...

    @property
    def reachable(self) -> int:
        """`allowed`, plus what no router holds, as far as known."""
        ...

    @property
    def slice(self) -> int:
        """How much is asked for beyond the need."""
        ...

    @property
    def opens_in_seconds(self) -> float | None:
        """When any router expects to have something to return; None if unknown."""
        ...

    @property
    def asks_in_seconds(self) -> float | None:
        """Seconds until asking again makes sense; None while a request is pending or the store is away."""
        ...

    def ask(self, least: int, more: int = 0) -> None:
        """Ask for the `least` needed, and `more` to spare, in the background, unless the answer is known."""
        ...

    async def answered(self) -> bool:
        """False where no answer is expected soon."""
        ...

    def close(self) -> None: ...


class SpentPart(Part, Protocol):
    """A router's part of a budget. Spent amounts do not come back."""

    held_elsewhere: int
    """What other routers hold unspent, as far as known."""

    @property
    def spent(self) -> int:
        """What all routers have spent, as far as known here."""
        ...

    def spend(self, units: int) -> None: ...

    async def confirm(self) -> None:
        """State this part, and wait until it is known here what others hold and have spent."""
        ...

    def recall(self, units: int) -> None:
        """Raise the count to what this router's ledger says."""
        ...


class Allowance(Protocol):
    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> Part:
        """A part of a limit. `use` returns its use; `wake` is called when there may be more."""
        ...

    def budget(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> SpentPart: ...
