"""The last finished requests, for the live feed: all of the page that is loaded before somebody opens it."""

import time
from collections import deque
from collections.abc import Mapping
from itertools import count
from operator import attrgetter

import msgspec
from msgspec import Struct

from router.contract.entry import Line
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Recorded

_MAX_ROWS = 1_000
Held = tuple[int, tuple[Line, str | None] | tuple[Line, str | None, str]]
"""The number of a row, its line and its decision; and of another router's row, the name of that router."""


class Kept(Struct, omit_defaults=True):
    """What the page needs of a kept decision, in every form that the ledger has known."""

    decided_by: str | None = None
    tier: str | None = None
    person_text: str | None = None


_decode = msgspec.json.Decoder(Kept).decode


def read_kept(decision: str | None) -> Kept:
    try:
        return _decode(decision) if decision is not None else Kept()
    except msgspec.MsgspecError:
        return Kept()


class Ring:
    """Observes finished requests and holds the newest, each with a number and its decision as JSON. Texts stay out of it."""

    def __init__(self) -> None:
        self.epoch = f"{time.time_ns():x}"
        """Which ring it is: another one, after a restart, counts from 1 again."""
        self.rows: deque[Held] = deque(maxlen=_MAX_ROWS)
        append, number, keep = self.rows.append, count(1).__next__, attrgetter("entry.line", "entry.decision")

        def take(_: Exchange, recorded: Recorded) -> None:  # every request pays for each step of this
            append((number(), keep(recorded)))

        self._take, self._number = take, number

    def start_again(self) -> None:
        """Drop all rows: the page was switched on."""
        self.rows.clear()

    def put(self, line: Line, decision: str | None, replica: str) -> None:
        """Hold a row of another router."""
        self.rows.append((self._number(), (line, decision, replica)))

    def pass_over(self, count: int) -> None:
        """Count rows that are not known: readers have missed them."""
        for _ in range(min(count, _MAX_ROWS)):
            self._number()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: self._take}
