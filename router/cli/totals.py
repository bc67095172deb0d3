"""What the turns since the start were worth, which `tandem serve` and `tandem run` print at the end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from router.contract.entry import Entry
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Recorded
from router.past.savings import read_worth
from router.past.worth import Account, Worth, spend


class Totals:
    def __init__(self) -> None:
        self.refused = 0
        """Requests that were refused before admission."""
        self._worth = Worth()
        self._account = Account({}, lambda turn: turn.add_to(self._worth))
        self._ledger: Path | None = None
        self._since = 0.0

    def read_from(self, ledger: Path | None, since: float) -> None:
        """Take the sums since a moment from a ledger, which also knows what was marked, if it can be read."""
        self._ledger, self._since = ledger, since

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: self._take}

    def _take(self, _: Exchange, recorded: Recorded) -> None:
        self.add(recorded.entry)

    def add(self, entry: Entry) -> None:
        self._account.add(spend(entry.line, entry.decision))

    def sentence(self) -> str:
        if (worth := read_worth(self._ledger, self._since)) is None:
            self._account.close()
            worth = self._worth
        return replace(worth, refused=worth.refused + self.refused).summary()
