"""Recorded turns without their text, and how they ended: fitting and measuring what notices that a turn goes wrong.

Each recorded call is given to the code that counts the calls of a request (`router/sessions/trajectory.py`), so that what is
fitted and measured here is what a router sees.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from router.contract.request import Json, JsonObject, ToolCall, ToolResult
from router.contract.rescue import FROM_CALL, SHIPPED, RescueWeights
from router.contract.signals import Trajectory
from router.lab.items import load_lines
from router.lab.measure import auroc
from router.lab.train import CannotFit, divide, load_libraries
from router.sessions.trajectory import Work, add_calls, add_results, forget_old, read_trajectory

AFTER_CALLS = (10, 20, 30)
LONG_CALLS = 30
"""Catch and alarm are also measured on turns of this many calls and more: shorter ones are mostly over by then."""
_FITTED_EVERY = 5
_MAX_CALLS = 100
"""Calls after which a turn is no longer fitted: the few longest would count most."""
_ALARM_SHARE = 0.165
"""The share of fine turns in which the fitted reading may raise an alarm."""
_TOOLS = {"read": "Read", "search": "Grep", "edit": "Edit", "other": "Tool"}
_SHELL_KINDS = ("shell", "shell_edit", "test")


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn as it went, call by call, and whether it ended badly. `group` stays together when data is divided."""

    source: str
    group: str
    is_bad: bool
    trajectories: tuple[Trajectory, ...]

    @property
    def calls(self) -> int:
        return len(self.trajectories)


@dataclass(frozen=True, slots=True)
class RescueFigures:
    """How well turns that ended badly were noticed while they ran. A figure that the turns cannot show is None."""

    turns: int
    bad: int
    long_turns: int
    long_bad: int
    auroc: dict[int, float | None]
    turns_after: dict[int, int]
    catch: float | None
    alarm: float | None
    long_catch: float | None
    long_alarm: float | None


def load_turns(paths: Iterable[Path]) -> list[RecordedTurn]:
    """All turns of all files, in order. Raises `BadData`."""
    return [turn for path in paths for turn in load_lines(path, partial(_read_turn, path.stem))]


def _read_turn(source: str, found: JsonObject, _: int) -> RecordedTurn:
    calls = found["calls"]
    if not isinstance(calls, list):
        raise TypeError("calls must be a list")
    group = str(found.get("repo") or str(found.get("task", "")).partition("__")[0] or found.get("session", ""))
    return RecordedTurn(source, group, _is_bad(found), tuple(_follow(calls)))


def _is_bad(found: JsonObject) -> bool:
    if isinstance(found.get("bad"), bool):
        return found["bad"] is True
    if found["label"] not in ("bad", "fine"):
        raise ValueError('label must be "bad" or "fine"')
    return found["label"] == "bad"


def _follow(calls: list[Json]) -> Iterator[Trajectory]:
    """How the turn goes after each of its calls, counted as the calls of a request are."""
    work = Work()
    for index, row in enumerate(calls):
        call, result, said = as_call(row, str(index))
        add_calls(work, 2 * index, (call,), said)
        add_results(work, 2 * index + 1, (result,))
        forget_old(work)
        yield read_trajectory(work, 2 * index + 2)


def as_call(row: Json, call_id: str) -> tuple[ToolCall, ToolResult, int]:
    """A recorded call as a client would send it, its result, and how many characters the agent wrote before it.

    A row is `[kind, failed, red, call, file, result_chars, words_before]`.
    """
    kind, said = (row[0], row[6]) if isinstance(row, list) and len(row) == 7 else ("", 0)
    if not isinstance(row, list) or kind not in (*_TOOLS, *_SHELL_KINDS) or not isinstance(said, int):
        shown = orjson.dumps(row).decode()[:80]
        raise ValueError(f"a call must be [kind, failed, red, call, file, result_chars, words_before], not {shown}")
    _, failed, red, mark, file, _, _ = row
    if kind in _SHELL_KINDS:
        command = f"sed -i 's/a/{mark}/' {file or 'file'}" if kind == "shell_edit" else f"run {mark}"
        call = ToolCall(call_id, "Bash", {"command": command})
    else:
        call = ToolCall(call_id, _TOOLS[str(kind)], {"file_path": file, "mark": mark} if file else {"mark": mark})
    return call, ToolResult(call_id, "1 failed" if red else "done", bool(failed)), said


def score(turn: RecordedTurn, weights: RescueWeights = SHIPPED) -> list[float]:
    """By how much each call of a turn is above the alarm; below 0 nothing is said.

    The last call is left out: then the turn is over.
    """
    return [read_at(turn, calls, weights) for calls in range(FROM_CALL, turn.calls)]


def read_at(turn: RecordedTurn, calls: int, weights: RescueWeights) -> float:
    """By how much a turn is above the alarm after this many of its calls."""
    trajectory = turn.trajectories[calls - 1]
    return weights.read(trajectory.edits, trajectory.unevenness) - weights.alarm


def measure_rescue(turns: Sequence[RecordedTurn], weights: Sequence[RescueWeights]) -> RescueFigures:
    """The figures of turns. Each is judged by weights of its own: the shipped ones, or those that were fitted without it."""
    judged = list(zip(turns, weights, strict=True))
    raised = [any(value >= 0 for value in score(turn, own)) for turn, own in judged]
    is_long = [turn.calls >= LONG_CALLS for turn in turns]
    ranked = {
        calls: [(read_at(turn, calls, own), turn.is_bad) for turn, own in judged if turn.calls >= calls]
        for calls in AFTER_CALLS
    }

    def share(*, is_bad: bool, long_only: bool) -> float | None:
        found = zip(turns, raised, is_long, strict=True)
        kept = [was_raised for turn, was_raised, long in found if turn.is_bad is is_bad and long >= long_only]
        return sum(kept) / len(kept) if kept else None

    return RescueFigures(
        turns=len(turns),
        bad=sum(turn.is_bad for turn in turns),
        long_turns=sum(is_long),
        long_bad=sum(turn.is_bad for turn, long in zip(turns, is_long, strict=True) if long),
        auroc={calls: auroc(pairs) for calls, pairs in ranked.items()},
        turns_after={calls: len(pairs) for calls, pairs in ranked.items()},
        catch=share(is_bad=True, long_only=False),
        alarm=share(is_bad=False, long_only=False),
        long_catch=share(is_bad=True, long_only=True),
        long_alarm=share(is_bad=False, long_only=True),
    )


def fit_rescue(turns: Sequence[RecordedTurn]) -> RescueWeights:
    """Fit the reading. Every turn counts once, however long it is. Raises `CannotFit`."""
    linear_model, _, _ = load_libraries()
    fitted = [(turn, calls) for turn in turns for calls in _fitted_calls(turn)]
    if len({turn.is_bad for turn, _ in fitted}) < 2:
        raise CannotFit(f"too little data: turns of more than {FROM_CALL} calls that ended badly and that did not are needed")
    seen = [turn.trajectories[calls - 1] for turn, calls in fitted]
    uneven = [trajectory.unevenness for trajectory in seen if trajectory.unevenness]
    usual_unevenness = round(sum(uneven) / max(len(uneven), 1), 3)
    rows = [(trajectory.unevenness or usual_unevenness, math.log1p(trajectory.edits)) for trajectory in seen]
    shares = [1 / len(_fitted_calls(turn)) for turn, _ in fitted]
    model = linear_model.LogisticRegression(C=10, max_iter=500)
    model.fit(rows, [turn.is_bad for turn, _ in fitted], sample_weight=shares)
    unevenness, edits = (round(float(value), 3) for value in model.coef_[0])
    sums = [unevenness * row[0] + edits * row[1] for row in rows]
    usual = sum(share * value for share, value in zip(shares, sums, strict=True)) / sum(shares)
    weights = RescueWeights(unevenness, edits, round(usual, 3), usual_unevenness, alarm=0.0)
    return weights._replace(alarm=round(_find_alarm(turns, weights), 3))


def _fitted_calls(turn: RecordedTurn) -> list[int]:
    """After which calls a turn is fitted."""
    return [calls for calls in range(FROM_CALL, min(turn.calls, _MAX_CALLS + 1)) if calls % _FITTED_EVERY == 0]


def _find_alarm(turns: Sequence[RecordedTurn], weights: RescueWeights) -> float:
    """The limit above which the allowed share of fine long turns lies at some call."""
    fine = [turn for turn in turns if not turn.is_bad and turn.calls >= LONG_CALLS]
    highest = sorted((max(score(turn, weights)) for turn in fine), reverse=True)
    if not highest:
        raise CannotFit(f"too little data: no turn of {LONG_CALLS} calls or more ended well")
    return highest[int(_ALARM_SHARE * len(highest))]


def fit_out_of_fold(turns: Sequence[RecordedTurn]) -> list[RescueWeights]:
    """For each turn, weights that were fitted without its project, alarm included. Raises `CannotFit`."""
    found: list[RescueWeights] = [SHIPPED] * len(turns)
    folds = divide([f"{turn.source} {turn.group}" for turn in turns])
    for fold in set(folds):
        weights = fit_rescue([turn for turn, own in zip(turns, folds, strict=True) if own != fold])
        found = [weights if own == fold else known for known, own in zip(found, folds, strict=True)]
    return found
