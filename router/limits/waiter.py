"""One request at a target that has a quota: what it asks for, its wait as it looks, and the permit that it gets."""

import asyncio
import math
from typing import Protocol

from msgspec import Struct

from router.contract.caller import SessionKey
from router.contract.facts import AttemptEnded
from router.limits.fair import Miss
from router.limits.quota import Grant


class Metered(Protocol):
    """A queue, as a permit must know it."""

    def end(self, grant: Grant, now: float, ended: AttemptEnded | None) -> None:
        """A call is over."""
        ...

    def take_back(self, grant: Grant, now: float) -> None:
        """There was no call."""
        ...


class Permit:
    """The right to make one call. It is given back when the call is over, in whatever way."""

    __slots__ = ("_grant", "_queue", "amount", "ended_at", "is_side_request", "who")

    def __init__(self, queue: Metered, grant: Grant, who: SessionKey, amount: float, *, is_side_request: bool = False) -> None:
        self._queue, self._grant, self.who, self.amount, self.is_side_request = queue, grant, who, amount, is_side_request
        self.ended_at: float | None = None

    def end(self, now: float, ended: AttemptEnded | None) -> None:
        if self._grant.is_open:
            self.ended_at = now
            self._queue.end(self._grant, now, ended)

    def take_back(self, now: float) -> None:
        if self._grant.is_open:
            self._queue.take_back(self._grant, now)


class Expected(Struct, frozen=True):
    """A wait as it looks now: how long, why in words that follow the target's name, and who else waits."""

    seconds: float
    because: str = ""
    position: int = 1
    length: int = 1


class Ask:
    """What one request asks for: tokens, and which part of a minute's they are. Numbers go by arrival."""

    __slots__ = ("amount", "due", "is_background", "is_side_request", "number", "tokens", "who")

    def __init__(
        self,
        who: SessionKey,
        tokens: int,
        amount: float,
        number: int,
        *,
        is_side_request: bool = False,
        is_background: bool = False,
    ) -> None:
        self.who, self.tokens, self.amount, self.number, self.is_side_request = who, tokens, amount, number, is_side_request
        self.is_background = is_background
        """Whether nobody waits for it: it goes after all others."""
        self.due = math.inf
        """When it was to have its turn, as it looked when it came."""


class Waiter(Ask):
    __slots__ = ("came_at", "expected", "let_in", "miss")

    def __init__(self, ask: Ask, let_in: "asyncio.Future[Permit]", came_at: float = 0.0) -> None:
        kinds = {"is_side_request": ask.is_side_request, "is_background": ask.is_background}
        super().__init__(ask.who, ask.tokens, ask.amount, ask.number, **kinds)
        self.let_in, self.came_at = let_in, came_at
        self.miss: Miss | None = None
        """What is owed for the wait, once it is one."""
        self.expected = Expected(0.0)
        """What the wait looked like when somebody looked last."""

    @property
    def permit(self) -> "Permit | None":
        return self.let_in.result() if self.let_in.done() and not self.let_in.cancelled() else None
