"""Scores labelled turns: decided here, or by a running router (`--url`)."""

import argparse
import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from router.cli.asking import Refused, Unreachable, ask_object
from router.cli.common import load_in_use, say
from router.cli.figures import plural
from router.cli.progress import Progress
from router.cli.tables import cell, style_here, write_table
from router.config.load import LoadedConfig
from router.contract.errors import BadRequest, RequestError
from router.contract.request import JsonObject
from router.contract.words import DEFAULT_DIALECT, Tier
from router.wiring.build import build_house
from tests.lab.figures import Judged, measure, split_by_set
from tests.lab.labelled import BadData, Item, arrival_of, load_items

_TIMEOUT_SECONDS = 30.0
_REFUSALS = (400, 413)
"""Statuses that refuse one request, such as one too long. Others are errors of the router."""
_LEGEND = """
AUROC: the chance that a long task scores above a quick one. quick on fast, long on deep: the shares that went there.
Only clear items count.
"""
_TITLES = ("", "items", "AUROC", "quick on fast", "long on deep")
Explain = Callable[[Item], JsonObject]
"""Returns what `tandem explain --json` prints."""


class Verdicts(NamedTuple):
    judged: list[Judged]
    refusals: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Raises `BadData`."""
    items = [item for item in load_items(arguments.data) if item.is_clear]
    say(f"judging {plural(len(items), 'clear item')}")
    with _explaining(arguments) as explain:
        judged, refusals = judge(explain, items)
    if not judged:
        raise BadData(f"every item was refused. The first: {refusals[0]}" if refusals else "these files have no clear items")
    figures = {name: measure(entries) for name, entries in split_by_set(judged).items()}
    if arguments.json:
        sets = {name: found._asdict() for name, found in figures.items()}
        print(json.dumps({"sets": sets, "left_out": len(refusals)}, indent=2))
    else:
        rows = [
            [name, str(found.items), *map(cell, (found.auroc, found.quick_recall, found.long_recall))]
            for name, found in figures.items()
        ]
        print("\n".join(write_table(_TITLES, rows, style_here())))
        say(_LEGEND.rstrip())
    if refusals:
        say(f"left out {plural(len(refusals), 'item')} that the router refused. The first: {refusals[0]}")
    return 0


def _explaining(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Explain]:
    if arguments.url:
        return contextlib.nullcontext(partial(_ask, arguments.url))
    return explaining_here(load_in_use(arguments.config, needs_keys=False))


@contextlib.contextmanager
def explaining_here(loaded: LoadedConfig) -> Iterator[Explain]:
    """Decide in this process, with a run per decision: Ctrl-C is noticed only between runs."""
    house = build_house(loaded, with_ledger=False).house
    try:
        with asyncio.Runner() as runner:
            yield lambda item: runner.run(house.explain(arrival_of(item)))
    finally:
        house.state.counter.close()


def judge(explain: Explain, items: Sequence[Item]) -> Verdicts:
    found = Verdicts([], [])
    with Progress("measuring", len(items)) as progress:
        for item in items:
            try:
                told = explain(item)
                found.judged.append(Judged(item, float(str(told["score"])), told["tier"] == Tier.FAST))
            except RequestError as error:
                found.refusals.append(str(error))
            progress.advance(1)
    return found


def _ask(url: str, item: Item) -> JsonObject:
    """Errors name the URL."""
    try:
        path = f"/tandem/explain?dialect={DEFAULT_DIALECT}"
        told = ask_object(url, path, arrival_of(item).raw, within_seconds=_TIMEOUT_SECONDS)
    except Refused as error:
        if error.status in _REFUSALS:
            raise BadRequest(f"status {error.status}") from error
        raise BadData(f"{url} answered {error.status}") from error
    except Unreachable as error:
        raise BadData(f"{url} cannot be asked: {error}") from error
    if not isinstance(told.get("score"), (int, float)) or told.get("tier") not in tuple(Tier):
        raise BadData(f"{url} answered without a score and a tier: is it a Tandem router?")
    return told
