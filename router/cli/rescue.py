"""`tandem eval --rescue` and `tandem train --rescue`: how well turns that go wrong are noticed while they run."""

from collections.abc import Sequence
from pathlib import Path

from router.cli import Ended
from router.cli.common import print_json, rounded, say
from router.cli.tables import cell, style_here, write_table
from router.contract.request import JsonObject
from router.contract.rescue import FROM_CALL, SHIPPED, RescueWeights
from router.lab.items import BadData
from router.lab.rescue import (
    AFTER_CALLS,
    LONG_CALLS,
    RecordedTurn,
    RescueFigures,
    fit_out_of_fold,
    fit_rescue,
    load_turns,
    measure_rescue,
)
from router.lab.train import CannotFit

_LEGEND = f"""
AUROC after N calls: the chance that a turn which ends badly scores above one that does not, among turns of N calls and more.
catch: the share of bad turns in which it raised an alarm before the last call; alarm: the same of fine turns. It says nothing
before call {FROM_CALL}.
"""


def evaluate(paths: Sequence[Path], *, as_json: bool) -> int:
    """Measure the shipped reading on recorded turns."""
    turns = _load(paths)
    figures = _by_file(turns, [SHIPPED] * len(turns))
    if as_json:
        *files, whole = {name: _as_json(found) for name, found in figures.items()}.items()
        print_json({**whole[1], "files": dict(files or [whole])})
    else:
        _print(figures)
        say(_LEGEND.rstrip())
    return 0


def train(paths: Sequence[Path]) -> int:
    """Fit the reading and measure it on projects that were left out. Changes no file: the weights are in the code."""
    turns = _load(paths)
    try:
        weights, own = fit_rescue(turns), fit_out_of_fold(turns)
    except CannotFit as error:
        raise Ended(2, str(error)) from error
    say("each turn is judged by weights, and an alarm, that were fitted without its project")
    _print(_by_file(turns, own))
    say(_LEGEND.rstrip())
    print(f"fitted:  {_write(weights)}")
    print(f"shipped: {_write(SHIPPED)}")
    return 0


def _load(paths: Sequence[Path]) -> list[RecordedTurn]:
    try:
        turns = load_turns(paths)
    except BadData as error:
        raise Ended(2, str(error)) from error
    if not turns:
        raise Ended(2, "these files contain no turns")
    return turns


def _by_file(turns: Sequence[RecordedTurn], weights: Sequence[RescueWeights]) -> dict[str, RescueFigures]:
    """The figures of each file, and of all where there are several."""
    sources = dict.fromkeys(turn.source for turn in turns)
    found = {}
    for source in sources:
        kept = [(turn, own) for turn, own in zip(turns, weights, strict=True) if turn.source == source]
        found[source] = measure_rescue([turn for turn, _ in kept], [own for _, own in kept])
    return {**found, "all": measure_rescue(turns, weights)} if len(found) > 1 else found


def _print(figures: dict[str, RescueFigures]) -> None:
    titles = ["", "turns", "bad", *(f"after {calls}" for calls in AFTER_CALLS), "catch", "alarm"]
    rows = []
    for name, found in figures.items():
        ranked = [f"{cell(found.auroc[calls])} of {found.turns_after[calls]}" for calls in AFTER_CALLS]
        rows.append([name, str(found.turns), str(found.bad), *ranked, cell(found.catch), cell(found.alarm)])
        long = [str(found.long_turns), str(found.long_bad), *("" for _ in AFTER_CALLS)]
        rows.append([f"{name}, {LONG_CALLS} calls and more", *long, cell(found.long_catch), cell(found.long_alarm)])
    print("\n".join(write_table(titles, rows, style_here())))


def _as_json(found: RescueFigures) -> JsonObject:
    return {
        "turns": found.turns,
        "bad": found.bad,
        "auroc": {str(calls): rounded(found.auroc[calls]) for calls in AFTER_CALLS},
        "turns_after": {str(calls): found.turns_after[calls] for calls in AFTER_CALLS},
        "catch": rounded(found.catch),
        "alarm": rounded(found.alarm),
        f"from_{LONG_CALLS}_calls": {
            "turns": found.long_turns,
            "bad": found.long_bad,
            "catch": rounded(found.long_catch),
            "alarm": rounded(found.long_alarm),
        },
    }


def _write(weights: RescueWeights) -> str:
    return ", ".join(f"{name}={value}" for name, value in weights._asdict().items())
