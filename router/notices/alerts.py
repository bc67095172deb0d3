"""Gathers what is broken now, and reports each trouble that begins or is over to the address that the config names for it.

What comes and goes must not send a storm. A trouble that is gone counts as over only after half a minute without it, and one
that becomes another kind at the same place is reported again after half a minute at the soonest. So a target, a caller or the
ledger sends four messages a minute at most, and nearly always far fewer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.contract.notices import Notice, Notices, Place, Trouble
from router.contract.secret import Secret
from router.notices.webhook import Message, Webhook

_LOOK_SECONDS = 2.0
_HOLD_SECONDS = 30.0
Source = Callable[[], Iterable[Notice]]
"""Knows the troubles of one kind of thing: targets, budgets, the ledger."""
_SAME_SECONDS = 2.0
"""Times that are computed from two clocks differ a little from one look to the next."""


class NoticeBoard:
    """Gathers what its sources know. A notice that has not changed is the same as at the last look."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        self._last: dict[Place, Notice] = {}

    def __call__(self) -> Sequence[Notice]:
        """Everything that is broken now, the oldest trouble first."""
        found = [self._steady(notice) for source in self._sources for notice in source()]
        self._last = {notice.place: notice for notice in found}
        return tuple(sorted(found, key=lambda notice: notice.since))

    def _steady(self, notice: Notice) -> Notice:
        known = self._last.get(notice.place)
        if known is not None and abs(known.since - notice.since) < _SAME_SECONDS:
            return replace(notice, since=known.since)
        return notice


class _Known(Struct):
    """A trouble that was reported."""

    notice: Notice
    seen_at: float
    """When it was last there."""
    said: Trouble
    said_at: float
    """The trouble that was reported last, and when."""


class Alerts:
    """Compares what is broken with what was reported."""

    def __init__(self, notices: Notices, webhook: Webhook, clock: Callable[[], float] = time.time) -> None:
        self._notices, self._webhook, self._clock = notices, webhook, clock
        self._address: Secret | None = None
        self._known: dict[Place, _Known] = {}
        self._is_wanted = asyncio.Event()

    def follow(self, address: Secret | None) -> None:
        """Report to another address from now on, or to nobody. A new one is sent every trouble that lasts."""
        if address != self._address:
            self._known = {}
        self._address = address
        self._webhook.follow(address)
        (self._is_wanted.clear if address is None else self._is_wanted.set)()

    async def watch(self) -> None:
        """Look every two seconds, as long as there is an address."""
        while True:
            await self._is_wanted.wait()
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Report what has changed."""
        now = self._clock()
        current = {notice.place: notice for notice in self._notices()}
        for place, notice in current.items():
            known = self._known.get(place)
            if known is None:
                self._known[place] = _Known(notice, now, notice.kind, now)
                self._webhook.send(_say_began(notice))
                continue
            known.notice, known.seen_at = notice, now
            if notice.kind is not known.said and now - known.said_at >= _HOLD_SECONDS:
                known.said, known.said_at = notice.kind, now
                self._webhook.send(_say_began(notice))
        for place in [place for place, known in self._known.items() if now - known.seen_at >= _HOLD_SECONDS]:
            known = self._known.pop(place)
            self._webhook.send(_say_over(known.notice, known.seen_at))


def _say_began(notice: Notice) -> Message:
    text = f"Tandem: {notice.text}. To fix it: {notice.hint}"
    return Message(text, notice.kind, notice.subject, "began", notice.since, notice.hint)


def _say_over(notice: Notice, ended_at: float) -> Message:
    minutes = max(1, round((ended_at - notice.since) / 60))
    text = f"Tandem: over after {minutes} min: {notice.text}"
    return Message(text, notice.kind, notice.subject, "over", notice.since, "")
