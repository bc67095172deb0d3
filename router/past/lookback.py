"""The regret of a ledger's newest rows, bounded: what a page, a command or a scrape can wait for."""

from typing import NamedTuple

from router.contract.request import JsonObject
from router.contract.stores import EntryReader
from router.past.regret import PriceOf, Regret
from router.past.turns import read_turns

MAX_ROWS = 10_000
"""The newest rows that are looked at: weeks of one person's work, read in a fifth of a second."""


class Lookback(NamedTuple):
    regret: Regret
    since: float
    begins_at: float
    """From this moment on, every row was looked at."""
    is_complete: bool

    def as_json(self) -> JsonObject:
        """What `/tandem/regret` and `tandem stats --json` answer."""
        return {"since": self.since, "from": self.begins_at, "complete": self.is_complete, **self.regret.as_json()}


def look_back(ledger: EntryReader, price_of: PriceOf, since: float, caller: str | None = None) -> Lookback:
    """The regret since a moment; with a caller's name, of that caller alone. It blocks. Raises `StoreUnusable`.

    Prices are those of today: the ledger keeps what a request cost, but not what each of its tokens did.
    """
    found = ledger.read_recent_calls(since, MAX_ROWS, caller)
    return Lookback(Regret.of(read_turns(found.calls), price_of), since, found.begins_at, found.is_complete)
