"""How well counts of a running turn show that it goes wrong, on projects that had no part in any choice.

The counts, their weights and the alarm are chosen without the project that they judge. The alarm is the one that saves most
seconds: moving a turn up costs the hop and deep's slower calls, and saves a lost turn where deep gets right what fast got wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log1p
from typing import Any, NamedTuple

from msgspec import structs

from policies.boundary import BoundaryConfig, BoundaryPolicy
from router.contract.rescue import FROM_CALL
from router.contract.signals import SessionPosition, Trajectory
from router.contract.target import Speed
from router.contract.words import Tier, TurnKind
from router.decide.yardstick import Assumptions, took
from router.past.figures import LONG_CALLS, auroc, share
from router.past.labelled import RecordedTurn
from tests.lab.bars import Figure, estimate
from tests.lab.libraries import CannotFit, load_libraries
from tests.lab.train import divide
from tests.tools.values import ask, make_signals, make_target, stand

COUNTS: Mapping[str, Callable[[Trajectory], float]] = {
    "edits": lambda seen: log1p(seen.edits),
    "unevenness": lambda seen: seen.unevenness or 1.4,
    "calls": lambda seen: log1p(seen.calls),
    "failures": lambda seen: min(seen.failures, 4),
    "red runs": lambda seen: min(seen.red_runs, 4),
    "repeats": lambda seen: seen.repeats,
    "edits of one file": lambda seen: seen.same_file_edits,
    "files": lambda seen: log1p(seen.files),
    "characters written": lambda seen: log1p(seen.written_chars),
}
ALARM_SHARES = (0.3, 0.22, 0.165, 0.12, 0.08, 0.05, 0.03, 0.015)
"""Shares of fine long turns in which an alarm may be raised."""
SOLVED_BY_DEEP = 0.5
"""Of the tasks that fast fails, deep solves 0.39 to 0.68 in public pairs of models."""
_FAST, _DEEP = Speed(0.3, 1_000.0, 20_000.0), Speed(1.0, 65.0, 10_000.0)
_PROMPT_TOKENS = 50_000
_HOP_SECONDS = 1.0 + _PROMPT_TOKENS / _DEEP.prefill_tokens_per_second
_PARTS = 6
_MOST_COUNTS, _LEAST_GAIN = 2, 0.005
_FITTED_EVERY, _LAST_FITTED = 5, 100


class Alarm(NamedTuple):
    """A turn judged by what was chosen without its project. `at` is the call of the alarm, if any."""

    group: str
    turn: RecordedTurn
    highest: float
    at: int | None

    def saved_seconds(self) -> float:
        """By moving up at the alarm; negative where that costs time."""
        return 0.0 if self.at is None else save_seconds(self.turn, self.at)


class Choice(NamedTuple):
    """Counts by their place in `COUNTS`, and the share of fine long turns that may raise an alarm."""

    counts: tuple[int, ...]
    share: float
    alarm: float


def save_seconds(turn: RecordedTurn, at: int) -> float:
    """Moving up after this call instead of letting fast finish."""
    moving = _HOP_SECONDS + took(_DEEP, turn.calls - at).seconds - took(_FAST, turn.calls - at).seconds
    lost = Assumptions().failure_seconds + took(_DEEP, turn.calls).seconds
    return turn.is_bad * SOLVED_BY_DEEP * lost - moving


def judge_left_out(turns: Sequence[RecordedTurn], report: Callable[[str], None]) -> list[Alarm]:
    """Judge every turn of 30 calls and more without its project. Raises `CannotFit`."""
    long = [turn for turn in turns if turn.calls > FROM_CALL]
    table = _Table(long)
    homes = divide(table.groups, _PARTS)
    judged = []
    for part in sorted(set(homes)):
        others = [index for index, home in enumerate(homes) if home != part]
        choice = table.choose(others)
        names = ", ".join([*COUNTS][count] for count in choice.counts)
        report(f"without part {part + 1} of {_PARTS}: {names or 'nothing'}; alarm in {choice.share:g} of fine long turns")
        own = [index for index, home in enumerate(homes) if home == part]
        for index, values in table.read(own, others, choice.counts):
            above = (values >= choice.alarm).nonzero()[0]
            at = FROM_CALL + int(above[0]) if len(above) else None
            judged.append(Alarm(table.groups[index], long[index], float(values.max()), at))
    return [one for one in judged if one.turn.calls >= LONG_CALLS]


class _Table:
    """The counts after each call of long turns, but the last call, which ends the turn."""

    def __init__(self, turns: Sequence[RecordedTurn]) -> None:
        self._linear_model, _, self._numpy = load_libraries()
        self._turns = turns
        self.groups = [f"{turn.source} {turn.group}" for turn in turns]
        self._rows = [
            self._numpy.array([[count(seen) for count in COUNTS.values()] for seen in turn.trajectories[FROM_CALL - 1 : -1]])
            for turn in turns
        ]

    def read(self, indices: Sequence[int], fitted: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """The log-odds of turns after each call, by a fit to others."""
        if len({self._turns[index].is_bad for index in fitted}) < 2:
            raise CannotFit(f"too little data: turns of over {FROM_CALL} calls that ended badly, and others, are needed")
        if not counts:
            yield from ((index, self._numpy.zeros(len(self._rows[index]))) for index in indices)
            return
        columns = [*counts]
        rows = [self._rows[index][: _LAST_FITTED - FROM_CALL : _FITTED_EVERY][:, columns] for index in fitted]
        labels = [self._turns[index].is_bad for index, own in zip(fitted, rows, strict=True) for _ in own]
        shares = [1 / len(own) for own in rows for _ in own]  # every turn counts once
        model = self._linear_model.LogisticRegression(C=10, solver="newton-cholesky")
        model.fit(self._numpy.concatenate(rows), labels, sample_weight=shares)
        for index in indices:
            yield index, self._rows[index][:, columns] @ model.coef_[0] + model.intercept_[0]

    def choose(self, indices: Sequence[int]) -> Choice:
        """The counts that rank best on parts left out of these turns, then the alarm that saves most."""
        chosen: tuple[int, ...] = ()
        best, read = 0.5, dict[int, Any]()
        while len(chosen) < _MOST_COUNTS:
            tried = [(*chosen, count) for count in range(len(COUNTS)) if count not in chosen]
            found = {counts: self._read_folds(indices, counts) for counts in tried}
            ranks = {counts: self._rank(values) for counts, values in found.items()}
            counts = max(ranks, key=ranks.__getitem__)
            if ranks[counts] < best + _LEAST_GAIN:
                break
            best, chosen, read = ranks[counts], counts, found[counts]
        fine = [float(values.max()) for index, values in read.items() if self._is_fine_and_long(index)]
        highest = sorted(fine, reverse=True)
        choices = [Choice(chosen, part, highest[int(part * len(highest))]) for part in ALARM_SHARES if highest]
        silent = Choice(chosen, 0.0, float("inf"))
        return max([silent, *choices], key=lambda choice: self._save(read, choice.alarm))

    def _read_folds(self, indices: Sequence[int], counts: Sequence[int]) -> dict[int, Any]:
        homes = dict(zip(indices, divide([self.groups[index] for index in indices]), strict=True))
        read: dict[int, Any] = {}
        for part in sorted(set(homes.values())):
            fitted = [index for index in indices if homes[index] != part]
            read.update(self.read([index for index in indices if homes[index] == part], fitted, counts))
        return read

    def _rank(self, read: Mapping[int, Any]) -> float:
        """The mean AUROC of the sources."""
        pairs: dict[str, list[tuple[float, bool]]] = {}
        for index, values in read.items():
            turn = self._turns[index]
            pairs.setdefault(turn.source, []).append((float(values.max()), turn.is_bad))
        known = [value for own in pairs.values() if (value := auroc(own)) is not None]
        return sum(known) / len(known) if known else 0.0

    def _save(self, read: Mapping[int, Any], alarm: float) -> float:
        """Mean seconds that a turn is done sooner; every source counts as much."""
        saved: dict[str, list[float]] = {}
        for index, values in read.items():
            turn, above = self._turns[index], (values >= alarm).nonzero()[0]
            seconds = save_seconds(turn, FROM_CALL + int(above[0])) if len(above) else 0.0
            saved.setdefault(turn.source, []).append(seconds)
        return sum(sum(seconds) / len(seconds) for seconds in saved.values())

    def _is_fine_and_long(self, index: int) -> bool:
        return not self._turns[index].is_bad and self._turns[index].calls >= LONG_CALLS


def judge_served(turns: Sequence[RecordedTurn]) -> list[Alarm]:
    """Where a turn on fast would be moved up as served: by its growth, and by the shipped reading of its counts."""
    request, boundary = ask(), BoundaryPolicy(BoundaryConfig())
    statuses = (stand(make_target(typical=_FAST)), stand(make_target("sage", Tier.DEEP, typical=_DEEP)))
    signals = make_signals(*statuses, kind=TurnKind.TOOL_LOOP, tokens=_PROMPT_TOKENS)
    running = structs.replace(signals.turn, position=SessionPosition(Tier.FAST, is_running=True), goes_on=True)

    def is_moved(seen: Trajectory) -> bool:
        turn = structs.replace(running, trajectory=seen)
        return any(opinion.tier is Tier.DEEP for opinion in boundary.judge(request, structs.replace(signals, turn=turn)))

    judged = []
    for turn in turns:
        at = next((calls for calls, seen in enumerate(turn.trajectories[:-1], 1) if is_moved(seen)), None)
        judged.append(Alarm(f"{turn.source} {turn.group}", turn, 0.0, at))
    return judged


def list_rescue_figures(judged: Sequence[Alarm]) -> Iterator[Figure]:
    """Figures for each source, with the range of resampled projects."""
    for source in dict.fromkeys(one.turn.source for one in judged):
        own = [one for one in judged if one.turn.source == source]
        if any(one.highest for one in own):
            yield estimate(f"{source}: AUROC", own, lambda some: auroc([(one.highest, one.turn.is_bad) for one in some]))
        yield estimate(f"{source}: catch", own, lambda some: _share_raised(some, is_bad=True))
        yield estimate(f"{source}: alarm", own, lambda some: _share_raised(some, is_bad=False))
        yield estimate(
            f"{source}: seconds saved in a turn", own, lambda some: sum(one.saved_seconds() for one in some) / len(some)
        )


def _share_raised(judged: Sequence[Alarm], *, is_bad: bool) -> float | None:
    own = [one.at is not None for one in judged if one.turn.is_bad is is_bad]
    return share(sum(own), len(own))
