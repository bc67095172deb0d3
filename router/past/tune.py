"""Fits rules, prior, personal offset and marks to the earlier part of a history, and evaluates on the later."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from router.contract.economics import Economics
from router.contract.personal import PersonalTable
from router.contract.words import Tier
from router.decide.yardstick import regret_of
from router.past.cases import Case, Sample
from router.past.marks import Taught, find_root, fit_table, places_of, sigmoid
from router.past.offsets import learn_offsets
from router.past.replay import Choice
from router.past.rules import READ_CHARS, FoundRule, find_rules
from router.past.work import SizedTurn

_LEAST_TURNS = 30
_PRIOR_TURNS = 50.0
"""Weight of the shipped values: little history changes little."""
_LEARNED_SHARE = 0.7
_MAX_OFFSET = 3.0
_RESAMPLES = 2_000
_MAX_GROUPS = 200
"""Resampled groups. More sessions are joined with neighbours: as good a band, in constant time."""
RESAMPLINGS = 3 * _RESAMPLES
"""Most progress steps that `tune` reports."""
_RULES = "rules"
_MAX_TAUGHT_BY = 2_000
"""Newest unmarked turns considered."""
_BAND = (0.025, 0.975)
_SHIPPED_BASE_RATE: float = Economics().base_rate


@dataclass(frozen=True, slots=True)
class Fit:
    """The two fitted settings."""

    base_rate: float
    personal_log_odds: float

    @property
    def log_odds(self) -> float:
        """Every turn's starting value."""
        return _logit(self.base_rate) + self.personal_log_odds


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after, and the 95 % band of its change over resampled sessions."""

    before: float
    after: float
    low: float
    high: float

    @property
    def may_harm(self) -> bool:
        """Whether the band includes an increase: both figures are losses."""
        return self.high > 1e-9


@dataclass(frozen=True, slots=True)
class Tuning:
    """Fitted on the first part of a history, with its effect on the rest. Rules stay even if the offset may do harm."""

    present: Fit
    fitted: Fit
    rules: tuple[FoundRule, ...]
    offset_may_harm: bool
    learned_turns: int
    held_out_turns: int
    held_out_sessions: int
    moved: int
    regret_per_100: Change
    log_loss: Change


def as_sample(case: Case, choice: Choice, *, is_foreign: bool = False) -> Sample | None:
    """None if the turn is not known to be quick or long. `is_foreign`: other weights scored it."""
    if not case.is_clear or case.size is None:
        return None
    return Sample(
        case.session,
        case.at or 0.0,
        choice.evidence,
        choice.threshold,
        choice.tier,
        case.size,
        case.weight,
        case.words[:READ_CHARS],
        case.places,
        case.caller,
        choice.decided_by == _RULES,
        case.request,
        is_foreign,
    )


def teach(samples: Sequence[Sample], values: Fit, weights: str) -> Taught | None:
    """The personal table of marked turns with known words; None without any."""
    open_ones = [sample for sample in samples if sample.threshold is not None and (sample.places or sample.words)]
    marks = [_with_places(sample) for sample in open_ones if sample.is_marked]
    marks = [mark for mark in marks if mark.places]
    if not marks:
        return None
    newest = sorted((sample for sample in open_ones if not sample.is_marked), key=lambda sample: sample.at)[-_MAX_TAUGHT_BY:]
    others = [_with_places(sample) for sample in newest]
    table = fit_table([*marks, *others], lambda sample: _room(sample, values), weights)
    return Taught(
        table=table,
        marks=len(marks),
        requests={mark.request: mark.places for mark in marks if mark.request},
        right_before=sum((tier_under(mark, values) is Tier.DEEP) is mark.is_long for mark in marks),
        right_after=sum((tier_under(mark, values, table=table) is Tier.DEEP) is mark.is_long for mark in marks),
        others=len(others),
        others_moved=sum(tier_under(turn, values) is not tier_under(turn, values, table=table) for turn in others),
    )


def without_taught(samples: Sequence[Sample], taught: Taught | None) -> list[Sample]:
    """Turns to fit the offset to, without those of other weights, and marks that the table explains."""
    own = [sample for sample in samples if not sample.is_foreign]
    if taught is None:
        return own
    return [sample for sample in own if not sample.is_marked or not taught.table.weigh(_with_places(sample).places)]


def _with_places(sample: Sample) -> Sample:
    return sample if sample.places or not sample.words else replace(sample, places=places_of(sample.words))


def _room(sample: Sample, values: Fit) -> float:
    return values.log_odds + sample.evidence - _logit(min(1 - 1e-6, max(1e-6, sample.threshold or 0.5)))


def tune(
    samples: Sequence[Sample], present: Fit, advance: Callable[[int], None] = lambda _: None, *, is_personal: bool = True
) -> Tuning | None:
    """Fit and evaluate; None with too little history. `advance` is called for each step of the evaluation.

    `is_personal`: the router adds what it learns of each caller by itself, before as after.
    """
    learned, held_out = split(samples)
    if len(samples) < _LEAST_TURNS or not learned or not held_out:
        return None
    teachers = learned if is_personal else []
    unruled = fit([sample for sample in learned if not sample.is_ruled])
    alone = Way.learn(unruled, teachers)
    rules = tuple(find_rules(learned, held_out, lambda sample: None if sample.threshold is None else alone.tier_of(sample)))
    fitted = fit([sample for sample in learned if not _is_ruled(sample, rules)]) if rules else unruled
    groups = _by_session(held_out)
    # Scores are irrelevant where a rule decides.
    scored = _by_session([sample for sample in held_out if not _is_ruled(sample, rules)])
    before, after = Way.learn(present, teachers), Way.learn(fitted, teachers, rules)
    ruled = replace(before, rules=rules)
    offset_may_harm = _compare(groups, ruled, after, _regret_per_100, advance).may_harm
    if rules and offset_may_harm:
        after = ruled
    return Tuning(
        present=present,
        fitted=fitted,
        rules=rules,
        offset_may_harm=offset_may_harm,
        learned_turns=len(learned),
        held_out_turns=len(held_out),
        held_out_sessions=len(groups),
        moved=sum(before.tier_of(sample) is not after.tier_of(sample) for sample in held_out),
        regret_per_100=_compare(groups, before, after, _regret_per_100, advance),
        log_loss=_compare(scored, before, after, _log_loss, advance),
    )


def _by_session(samples: Sequence[Sample]) -> list[list[Sample]]:
    sessions: dict[str, list[Sample]] = {}
    for sample in samples:
        sessions.setdefault(sample.session, []).append(sample)
    return list(sessions.values())


@dataclass(frozen=True, slots=True)
class Way:
    """Values, rules, and what the router adds for each caller to these values."""

    fit: Fit
    rules: tuple[FoundRule, ...] = ()
    offsets: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def learn(cls, values: Fit, teachers: Sequence[Sample], rules: tuple[FoundRule, ...] = ()) -> Self:
        """With the offsets that these turns teach under the values. Marked turns teach the table instead."""
        turns = [SizedTurn(sample.caller, sample.evidence, sample.is_long) for sample in teachers if not sample.is_marked]
        economics = Economics(base_rate=values.base_rate, personal_log_odds=values.personal_log_odds)
        return cls(values, rules, {caller: offset.log_odds for caller, offset in learn_offsets(turns, economics).items()})

    def log_odds_of(self, sample: Sample) -> float:
        return self.fit.log_odds + sample.evidence + self.offsets.get(sample.caller, 0.0)

    def tier_of(self, sample: Sample) -> Tier:
        """The first rule wins; a tier that nothing can change stays."""
        rule = _find_rule(sample, self.rules)
        return _choose_tier(sample, self.log_odds_of(sample)) if rule is None else rule.tier


def _find_rule(sample: Sample, rules: Sequence[FoundRule]) -> FoundRule | None:
    if sample.threshold is None or not rules:
        return None
    return next((rule for rule in rules if rule.holds_for(sample.words)), None)


def _is_ruled(sample: Sample, rules: Sequence[FoundRule]) -> bool:
    return sample.is_ruled or _find_rule(sample, rules) is not None


def say_what_lacks(samples: Sequence[Sample]) -> str:
    """Why nothing could be fitted, as text."""
    known, sessions = len(samples), len({sample.session for sample in samples})
    turns = f"{known} turns are known to be quick or long"
    if known < _LEAST_TURNS:
        return f"{turns}; at least {_LEAST_TURNS} in two or more sessions are needed"
    if sessions < 2:
        return f"{turns}, but all in one session: a second one is needed to test the change on"
    return f"{turns}, but most of them are in the last of {sessions} sessions: none is left to test the change on"


def split(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The earlier and the later part. Sessions stay whole, since their turns are alike."""
    learned: list[Sample] = []
    held_out: list[Sample] = []
    for group in _by_session(sorted(samples, key=lambda sample: sample.at)):
        is_early = not held_out and len(learned) + len(group) / 2 <= _LEARNED_SHARE * len(samples)
        (learned if is_early else held_out).extend(group)
    return learned, held_out


def fit(samples: Sequence[Sample]) -> Fit:
    """The prior is the share of long tasks, the offset explains the rest; prior and sum are shrunk."""
    long, turns = sum(sample.weight * sample.is_long for sample in samples), sum(sample.weight for sample in samples)
    base_rate = (long + _PRIOR_TURNS * _SHIPPED_BASE_RATE) / (turns + _PRIOR_TURNS)
    prior = _logit(base_rate)
    shift = prior - _logit(_SHIPPED_BASE_RATE)
    # A turn's information about an offset is p(1-p), at most a quarter: the prior counts as that many turns.
    pull = _PRIOR_TURNS / 4

    def slope(offset: float) -> float:
        wrong = math.fsum(sample.weight * (sigmoid(prior + offset + sample.evidence) - sample.is_long) for sample in samples)
        return wrong + pull * (shift + offset)

    return Fit(round(base_rate, 3), find_root(slope, _MAX_OFFSET))


def tier_under(sample: Sample, values: Fit, *, table: PersonalTable | None = None) -> Tier:
    taught = table.weigh(sample.places) if table is not None else 0.0
    return _choose_tier(sample, values.log_odds + sample.evidence + taught)


def _choose_tier(sample: Sample, log_odds: float) -> Tier:
    """The tier with other odds, by the score at which it changes. A tier that no score changes stays."""
    if sample.threshold is None:
        return sample.tier
    return Tier.FAST if sigmoid(log_odds) < sample.threshold else Tier.DEEP


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _regret_per_100(sample: Sample, way: Way) -> float:
    return 100 * regret_of(way.tier_of(sample), is_long=sample.is_long)


def _log_loss(sample: Sample, way: Way) -> float:
    chance = sigmoid(way.log_odds_of(sample))
    return -math.log(max(1e-9, chance if sample.is_long else 1 - chance))


def _compare(
    groups: list[list[Sample]],
    before: Way,
    after: Way,
    loss: Callable[[Sample, Way], float],
    advance: Callable[[int], None],
) -> Change:
    """Mean loss before and after, and the band of the change over resampled sessions."""
    if not groups:
        return Change(0.0, 0.0, 0.0, 0.0)
    sums = [
        (math.fsum(loss(sample, before) for sample in group), math.fsum(loss(sample, after) for sample in group), len(group))
        for group in _join_neighbours(groups)
    ]
    old, new, turns = (math.fsum(column) for column in zip(*sums, strict=True))
    differences = [(late - early, count) for early, late, count in sums]
    chance = random.Random(0)  # noqa: S311  the same history gives the same band
    changes = []
    for _ in range(_RESAMPLES):
        drawn, counts = zip(*chance.choices(differences, k=len(differences)), strict=True)
        changes.append(math.fsum(drawn) / sum(counts))
        advance(1)
    changes.sort()
    low, high = (changes[min(len(changes) - 1, int(share * len(changes)))] for share in _BAND)
    return Change(old / turns, new / turns, low, high)


def _join_neighbours(groups: list[list[Sample]]) -> list[list[Sample]]:
    size = math.ceil(len(groups) / _MAX_GROUPS)
    return [[*chain.from_iterable(groups[index : index + size])] for index in range(0, len(groups), size)]
