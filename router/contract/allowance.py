"""Limits that several routers share: each has a part of the limit, and all parts together are never more than the limit.

A router may use its part without asking anybody, also while the store that keeps the parts cannot be asked. What was used
within the last minute cannot be given away, so no minute sees more than the limit, whichever routers used it.
One store keeps them so far: `stores/valkey/allowance.py`.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


class Use(Struct, frozen=True):
    """How much of its part a router uses now, and in how many seconds some of that is free again, if that is known."""

    units: int
    frees_in_seconds: float | None = None


class Part(Protocol):
    """The part of one limit that this router has."""

    limit: int

    @property
    def is_blind(self) -> bool:
        """Whether the store cannot be asked."""
        ...

    @property
    def allowed(self) -> int:
        """How much this router may use now: what it uses counts, too."""
        ...

    @property
    def reachable(self) -> int:
        """The same, with what no router has, as far as that is known."""
        ...

    @property
    def slice(self) -> int:
        """How much more is asked for at once than is needed."""
        ...

    @property
    def opens_in_seconds(self) -> float | None:
        """When any router expects to have something to give away; None where nobody knows."""
        ...

    @property
    def asks_in_seconds(self) -> float | None:
        """How long until there is any use in asking again; None while a question is under way, or nobody can be asked."""
        ...

    def ask(self, least: int, more: int = 0) -> None:
        """Ask for more, in the background. `least` is what is needed, `more` what would be good to have in addition.

        Nothing is asked where the answer is known.
        """
        ...

    async def answered(self) -> bool:
        """Wait for the answer to what was asked; False where no answer is to be expected soon."""
        ...

    def close(self) -> None:
        """Give back everything that is not in use."""
        ...


class SpentPart(Part, Protocol):
    """The part of a budget that this router has. What is spent does not come back."""

    held_elsewhere: int
    """What other routers have and have not spent, as far as it is known."""

    @property
    def spent(self) -> int:
        """What all routers have spent, as far as it is known here."""
        ...

    def spend(self, units: int) -> None:
        """Count what something came to."""
        ...

    def recall(self, units: int) -> None:
        """Count what the ledger of this router says, where that is more."""
        ...


class Allowance(Protocol):
    """Where the parts are kept."""

    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> Part:
        """The part of a limit that this router has. `use` says what is used of it; `wake` is called when there may be more."""
        ...

    def budget(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> SpentPart:
        """The same for a limit of what may be spent."""
        ...
