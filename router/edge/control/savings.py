"""What Tandem saved, from the ledger: for `/tandem/savings`, `/tandem/stats` and `/metrics`."""

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.request import JsonObject
from router.contract.spending import read_ago
from router.contract.stores import RETRY_AFTER_SECONDS, StoreUnusable
from router.edge.control.panel import Answer, Asked, Page, as_json

_USUAL = "7d"
_KEPT_SECONDS = 3.0
_KEPT_TIMES = 20.0
"""An answer is shown again for so many times as long as it took: pages ask over and over."""
_MAX_KEPT = 64
SINCE_START_SECONDS = 60.0
"""How long the figures since the start are kept at the least."""

_FILTERS = ("client", "target")
LookBack = Callable[..., JsonObject]
"""Takes a moment, a caller's name, or None for all callers, and filters by name. It blocks, and raises `StoreUnusable`."""


class _Kept(NamedTuple):
    answer: JsonObject
    until: float


class Looks:
    """Looks at the ledger, one look at a time, and keeps what each has found for a while."""

    def __init__(self, look_back: LookBack, clock: Callable[[], float] = time.monotonic) -> None:
        self._look_back, self._clock = look_back, clock
        self._kept: dict[Hashable, _Kept] = {}
        self._one_at_a_time = asyncio.Lock()

    async def find(
        self,
        since: float,
        caller: str | None,
        of: Mapping[str, str] = MappingProxyType({}),
        *,
        name: str = "",
        keep_seconds: float = _KEPT_SECONDS,
    ) -> JsonObject:
        """The figures since a moment, filtered by `of`. Looks of one name share an answer. Raises `StoreUnusable`."""
        key = (name or since, caller, *of.items())
        async with self._one_at_a_time:
            began = self._clock()
            if (kept := self._kept.get(key)) is None or kept.until <= began:
                answer = await asyncio.to_thread(self._look_back, since, caller, **of)
                now = self._clock()
                kept = _Kept(answer, now + max(keep_seconds, _KEPT_TIMES * (now - began)))
                self._kept = {other: one for other, one in self._kept.items() if one.until > now}
                if len(self._kept) >= _MAX_KEPT:
                    self._kept.clear()
                self._kept[key] = kept
        return kept.answer


class SavingsFigures:
    """Shows an admin the figures of all callers, and a caller its own."""

    def __init__(self, looks: Looks | None, now: Callable[[], float] = time.time) -> None:
        self._looks, self._now = looks, now
        self.pages = (Page("/tandem/savings", self._show), Page("/tandem/regret", self._show))

    async def _show(self, asked: Asked) -> Answer:
        if self._looks is None:
            raise NotFound("this router keeps no ledger (ledger.path), so there is nothing to look back at")
        since = asked.query.get("since", _USUAL)
        if (ago := read_ago(since)) is None:
            raise BadRequest(f'since: "{since[:40]}" is not a time ago. Send 30m, 2h or 7d', param="since")
        caller = asked.query.get("caller") or None if asked.rights.is_admin else asked.caller.name
        of = {name: asked.query[name] for name in _FILTERS if asked.query.get(name)}
        try:
            return as_json(await self._looks.find(self._now() - ago, caller, of, name=str(ago)))
        except StoreUnusable as error:
            words = "the ledger cannot be read now. Try again, or run tandem check --live on the router's machine"
            raise Unavailable(words, retry_after_seconds=RETRY_AFTER_SECONDS) from error
