"""What is broken now. It is asked, and asks in turn: nothing is done for it while a request is served."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from router.contract.notices import Notice

Source = Callable[[], Iterable[Notice]]
"""Knows the troubles of one kind of thing: targets, budgets, the ledger."""
_SAME_SECONDS = 2.0
"""Times that are computed from two clocks differ a little from one look to the next."""


class NoticeBoard:
    """Gathers what its sources know. A notice that has not changed is the same as at the last look."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        self._last: dict[tuple[bool, bool, str], Notice] = {}

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
