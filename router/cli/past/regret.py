"""The regret of a ledger, as `tandem stats` prints it."""

import argparse
import os
from pathlib import Path

from router.cli.common import known_names
from router.cli.routers import known_routers
from router.config.load import find_config, load_prices
from router.contract.target import Price
from router.lab.lookback import MAX_ROWS, Lookback
from router.lab.regret import Figure
from router.screen.figures import UNKNOWN, count, day_and_clock, duration, money

TITLES = ("regret", "", "count", "how sure")
_WORDS = {
    "saved_seconds": "time that fast saved",
    "lost_seconds": "time lost on fast",
    "deep_needlessly_seconds": "time lost on deep",
    "saved_usd": "money that fast saved",
    "lost_usd": "money lost on fast",
    "hops_usd": "money paid for hops",
    "after_interrupt_tokens": "tokens after an interrupt, at most",
}


class Prices:
    """What targets cost, by the config of the router that wrote a ledger, or else by the one that the command uses.

    The config is read for the first target that is asked for: most sessions stay on a tier.
    """

    def __init__(self, arguments: argparse.Namespace, ledger: Path) -> None:
        self._named, self._ledger = arguments.config, ledger
        self._prices: dict[str, Price] | None = None

    def of(self, target: str) -> Price | None:
        if self._prices is None:
            is_named = bool(self._named or os.environ.get("TANDEM_CONFIG"))
            writer = None if is_named else next((one for one in known_routers() if one.ledger == self._ledger), None)
            self._prices = load_prices(writer.config if writer is not None else find_config(self._named), known_names())
        return self._prices.get(target)


def write_rows(found: Lookback) -> list[list[str]]:
    """A row for each figure, as `TITLES` names them."""
    figures = found.regret.figures.items()
    return [[_WORDS[name], _write(figure), f"{figure.count:,}", str(figure.sure)] for name, figure in figures]


def say_bound(found: Lookback) -> str:
    """How far back it goes, where that is not as far as was asked for."""
    return (
        "" if found.is_complete else f"Regret is that of the newest {MAX_ROWS:,} rows, since {day_and_clock(found.begins_at)}."
    )


def _write(figure: Figure) -> str:
    if figure.unit == "usd" and not figure.count:
        return UNKNOWN
    sign, value = "-" if figure.value < 0 else "", abs(figure.value)
    match figure.unit:
        case "seconds":
            return sign + duration(value)
        case "usd":
            return sign + money(value)
        case "tokens":
            return count(value)
