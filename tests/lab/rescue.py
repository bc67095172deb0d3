"""Fitting what notices that a turn goes wrong, on recorded turns without their text."""

import math
from collections.abc import Sequence

from router.contract.rescue import FROM_CALL, SHIPPED, RescueWeights
from router.past.figures import LONG_CALLS, score
from router.past.labelled import RecordedTurn
from tests.lab.train import CannotFit, divide, load_libraries

_FITTED_EVERY = 5
_MAX_CALLS = 100
"""Calls after which a turn is no longer fitted: the few longest would count most."""
_ALARM_SHARE = 0.08
"""The share of fine turns in which the fitted reading may raise an alarm."""


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
