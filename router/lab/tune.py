"""Fitting the prior and the personal offset to a history, and saying what that is worth on the part it has not seen."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router.config.models import DecisionSettings
from router.contract.words import Tier
from router.decide.yardstick import regret_of
from router.lab.cases import Case
from router.lab.past import Size
from router.lab.replay import Choice

_LEAST_TURNS = 30
"""With fewer that are known to have been quick or long, nothing is fitted."""
_PRIOR_TURNS = 50.0
"""What the shipped values weigh: little history changes little."""
_LEARNED_SHARE = 0.7
_MAX_OFFSET = 3.0
_RESAMPLES = 2_000
_BAND = (0.025, 0.975)
_SHIPPED_BASE_RATE: float = DecisionSettings.model_fields["base_rate"].default


@dataclass(frozen=True, slots=True)
class Sample:
    """A turn of which it is known what it was: what the evidence said, and where its tier would change."""

    session: str
    at: float
    evidence: float
    threshold: float | None
    tier: Tier
    size: Size
    weight: int = 1
    """How many turns it counts for: one that was marked as misjudged counts for more."""

    @property
    def is_long(self) -> bool:
        return self.size is Size.LONG


@dataclass(frozen=True, slots=True)
class Fit:
    """The two settings that are fitted."""

    base_rate: float
    personal_log_odds: float

    @property
    def log_odds(self) -> float:
        """What every turn begins with."""
        return _logit(self.base_rate) + self.personal_log_odds


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after, and the band in which its change lies (95 of 100 resamples of whole sessions)."""

    before: float
    after: float
    low: float
    high: float

    @property
    def may_harm(self) -> bool:
        """Whether more is within the band: both figures here are losses."""
        return self.high > 1e-9


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was fitted on the first part of a history, and what it would change on the rest."""

    present: Fit
    fitted: Fit
    learned_turns: int
    held_out_turns: int
    held_out_sessions: int
    moved: int
    regret_per_100: Change
    log_loss: Change


def as_sample(case: Case, choice: Choice) -> Sample | None:
    """A sample, if it is known what the turn was."""
    if case.size not in (Size.QUICK, Size.LONG):
        return None
    return Sample(case.session, case.at or 0.0, choice.evidence, choice.threshold, choice.tier, case.size, case.weight)


def tune(samples: Sequence[Sample], present: Fit) -> Tuning | None:
    """Fit and measure. None with too little history to do either."""
    learned, held_out = split(samples)
    if len(samples) < _LEAST_TURNS or not learned or not held_out:
        return None
    fitted = fit(learned)
    sessions: dict[str, list[Sample]] = {}
    for sample in held_out:
        sessions.setdefault(sample.session, []).append(sample)
    groups = list(sessions.values())
    return Tuning(
        present=present,
        fitted=fitted,
        learned_turns=len(learned),
        held_out_turns=len(held_out),
        held_out_sessions=len(groups),
        moved=sum(tier_under(sample, present) is not tier_under(sample, fitted) for sample in held_out),
        regret_per_100=_compare(groups, present, fitted, _regret_per_100),
        log_loss=_compare(groups, present, fitted, _log_loss),
    )


def say_what_lacks(samples: Sequence[Sample]) -> str:
    """Why nothing could be fitted to a history, for a person."""
    known, sessions = len(samples), len({sample.session for sample in samples})
    turns = f"{known} turns are known to be quick or long"
    if known < _LEAST_TURNS:
        return f"{turns}; at least {_LEAST_TURNS} in two or more sessions are needed"
    if sessions < 2:
        return f"{turns}, but all in one session: a second one is needed to test the change on"
    return f"{turns}, but most of them are in the last of {sessions} sessions: none is left to test the change on"


def split(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The earlier and the later part. Sessions stay whole: turns of one are alike, and would tell on each other."""
    sessions: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.at):
        sessions.setdefault(sample.session, []).append(sample)
    learned: list[Sample] = []
    held_out: list[Sample] = []
    for group in sessions.values():
        is_early = not held_out and len(learned) + len(group) / 2 <= _LEARNED_SHARE * len(samples)
        (learned if is_early else held_out).extend(group)
    return learned, held_out


def fit(samples: Sequence[Sample]) -> Fit:
    """The prior is the share of long tasks, the offset what is then left to explain.

    Both are shrunk: the prior as a share, and their sum, which is what a turn feels, as log-odds.
    """
    long, turns = sum(sample.weight * sample.is_long for sample in samples), sum(sample.weight for sample in samples)
    base_rate = (long + _PRIOR_TURNS * _SHIPPED_BASE_RATE) / (turns + _PRIOR_TURNS)
    prior = _logit(base_rate)
    shift = prior - _logit(_SHIPPED_BASE_RATE)
    # A turn's share in what is known of an offset is p(1-p), a quarter at most: the prior counts as so many turns of that.
    pull = _PRIOR_TURNS / 4

    def slope(offset: float) -> float:
        wrong = math.fsum(sample.weight * (sigmoid(prior + offset + sample.evidence) - sample.is_long) for sample in samples)
        return wrong + pull * (shift + offset)

    low, high = -_MAX_OFFSET, _MAX_OFFSET
    for _ in range(40):  # the loss is convex, so its slope has one root
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return Fit(round(base_rate, 3), round((low + high) / 2, 3) + 0.0)


def tier_under(sample: Sample, values: Fit) -> Tier:
    """The tier under other values, by the score at which it changes. What no score changes stays."""
    if sample.threshold is None:
        return sample.tier
    return Tier.FAST if sigmoid(values.log_odds + sample.evidence) < sample.threshold else Tier.DEEP


def sigmoid(log_odds: float) -> float:
    """The chance of given log-odds."""
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, log_odds))))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _regret_per_100(sample: Sample, values: Fit) -> float:
    return 100 * regret_of(tier_under(sample, values), is_long=sample.is_long)


def _log_loss(sample: Sample, values: Fit) -> float:
    chance = sigmoid(values.log_odds + sample.evidence)
    return -math.log(max(1e-9, chance if sample.is_long else 1 - chance))


def _compare(groups: list[list[Sample]], present: Fit, fitted: Fit, loss: Callable[[Sample, Fit], float]) -> Change:
    """The mean loss before and after, and the band of the change over resampled sessions."""
    sums = [
        (math.fsum(loss(sample, present) for sample in group), math.fsum(loss(sample, fitted) for sample in group), len(group))
        for group in groups
    ]
    before, after, turns = (math.fsum(column) for column in zip(*sums, strict=True))
    chance = random.Random(0)  # noqa: S311  the same history gives the same band
    changes = []
    for _ in range(_RESAMPLES):
        drawn = chance.choices(sums, k=len(sums))
        changes.append(math.fsum(new - old for old, new, _ in drawn) / sum(count for _, _, count in drawn))
    changes.sort()
    low, high = (changes[min(len(changes) - 1, int(share * len(changes)))] for share in _BAND)
    return Change(before / turns, after / turns, low, high)
