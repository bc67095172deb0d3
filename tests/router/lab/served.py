"""Entries of a ledger whose answers were counted."""

from dataclasses import replace

from router.contract.decision import Decision
from router.contract.entry import Entry, Usage
from router.contract.request import RequestView
from router.house import House
from tests.tools.entries import keep_entry


class CountedLedger:
    """Hands entries on with the tokens that each answer wrote."""

    def __init__(self, ledger, output_tokens: int) -> None:
        self._ledger, self._output_tokens = ledger, output_tokens

    def record(self, entry: Entry) -> None:
        self._ledger.record(entry._replace(usage=Usage(100, self._output_tokens)))


def keep_served(house: House, view: RequestView, decision: Decision, output_tokens: int | None, **more) -> None:
    """Record that a request was served by an answer of so many tokens; None for an answer that nobody counted."""
    counted = house if output_tokens is None else replace(house, ledger=CountedLedger(house.ledger, output_tokens))
    keep_entry(counted, view, decision, **more)
