"""What the choice of tiers saved and cost, from the ledger's newest rows."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.request import JsonObject
from router.contract.spending import read_ago
from router.contract.stores import RETRY_AFTER_SECONDS, StoreUnusable
from router.edge.control.panel import Answer, Asked, Page, as_json

_USUAL = "7d"
_KEPT_SECONDS = 3.0
"""How long an answer is shown again: pages ask over and over, and each look at the ledger takes a third of a second."""
_MAX_KEPT = 64


class Found(Protocol):
    """What a look back found."""

    def as_json(self) -> JsonObject: ...


LookBack = Callable[[float, str | None], Found]
"""Takes a moment and a caller's name, or None for all callers. It blocks, and raises `StoreUnusable`."""


class _Kept(NamedTuple):
    answer: Answer
    until: float


class RegretFigures:
    """Shows an admin the figures of all callers, and a caller its own."""

    def __init__(self, look_back: LookBack | None, clock: Callable[[], float] = time.time) -> None:
        self._look_back, self._clock = look_back, clock
        self._kept: dict[tuple[float, str | None], _Kept] = {}
        self._one_at_a_time = asyncio.Lock()
        self.pages = (Page("/tandem/regret", self._show),)

    async def _show(self, asked: Asked) -> Answer:
        if self._look_back is None:
            raise NotFound("this router keeps no ledger (ledger.path), so there is nothing to look back at")
        since = asked.query.get("since", _USUAL)
        if (ago := read_ago(since)) is None:
            raise BadRequest(f'since: "{since[:40]}" is not a time ago. Send 30m, 2h or 7d', param="since")
        key = (ago, None if asked.rights.is_admin else asked.caller.name)
        async with self._one_at_a_time:
            now = self._clock()
            if (kept := self._kept.get(key)) is None or kept.until <= now:
                kept = self._keep(key, await self._find(self._look_back, now - ago, key[1]), now)
        return kept.answer

    async def _find(self, look_back: LookBack, since: float, caller: str | None) -> Answer:
        try:
            return as_json((await asyncio.to_thread(look_back, since, caller)).as_json())
        except StoreUnusable as error:
            words = "the ledger cannot be read now. Try again, or run tandem check --live on the router's machine"
            raise Unavailable(words, retry_after_seconds=RETRY_AFTER_SECONDS) from error

    def _keep(self, key: tuple[float, str | None], answer: Answer, now: float) -> _Kept:
        self._kept = {other: kept for other, kept in self._kept.items() if kept.until > now}
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        kept = self._kept[key] = _Kept(answer, now + _KEPT_SECONDS)
        return kept
