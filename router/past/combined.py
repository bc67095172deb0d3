"""What `combine` would have done with past turns: where deep and fast take over, what is looked at, and what that takes. Pure.

Nothing is asked of a model, so whether the work would have become better is not known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.contract.combine import LookWhen
from router.contract.decision import Decision
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.decide.estimate import weighing_of
from router.decide.yardstick import Took
from router.look.gather import MAX_TOKENS_IN
from router.look.worth import expect, find_right_share, pays
from router.past.cases import Case, RegretSign

_AROUND_TOKENS = 1_500
"""The question, the ask and what commands printed; the edits are part of what the turn wrote."""
UNKNOWN_QUALITY = "unknown: no model was asked again"


@dataclass(slots=True)
class Sum:
    """Money is None where a price is missing."""

    seconds: float = 0.0
    usd: float | None = 0.0

    def add(self, took: Took) -> None:
        self.seconds += took.seconds
        self.usd = None if self.usd is None or took.usd is None else self.usd + took.usd

    def as_json(self) -> JsonObject:
        return {"seconds": round(self.seconds, 1), "usd": None if self.usd is None else round(self.usd, 6)}


@dataclass(slots=True)
class PlanReport:
    """Planning on deep and the turn after it on fast, next to what the config chooses."""

    turns: int = 0
    unservable: int = 0
    """Turns that no target of the config could serve; they are in no other figure."""
    unknown: int = 0
    """Turns of which it is not recorded whether the client was planning."""
    planned: int = 0
    boundaries: int = 0
    """Planning that was followed by work."""
    moved: int = 0
    hops_before: int = 0
    hops_after: int = 0
    timed: int = 0
    before: Sum = field(default_factory=Sum)
    after: Sum = field(default_factory=Sum)
    _last: dict[tuple[str, str], tuple[bool, Tier, Tier]] = field(default_factory=dict)
    """By caller and session: whether the last turn was planning, and its tier before and after."""

    def add(self, case: Case, decision: Decision | None, took: Mapping[Tier, Took]) -> None:
        if decision is None:
            self.unservable += 1
            return
        known = case.is_planning
        if known is None and case.kept is not None and case.arrival is not None:  # a ledger that keeps text
            known = decision.turn.is_planning
        key, is_planning, before = (case.caller, case.session), bool(known), decision.tier
        was_planning, last_before, last_after = self._last.get(key, (False, None, None))
        is_boundary = was_planning and not is_planning and case.has_worked
        after = before
        if not decision.was_asked_for and (is_planning or is_boundary):
            after = Tier.DEEP if is_planning else Tier.FAST
        self._last[key] = (is_planning, before, after)
        self.turns += 1
        self.unknown += known is None
        self.planned += is_planning
        self.boundaries += is_boundary
        self.moved += after is not before
        self.hops_before += last_before not in (None, before)
        self.hops_after += last_after not in (None, after)
        if took:
            self.timed += 1
            self.before.add(took[before])
            self.after.add(took[after])

    def as_json(self) -> JsonObject:
        names = ("turns", "unservable", "unknown", "planned", "boundaries", "moved", "hops_before", "hops_after", "timed")
        counts = {name: getattr(self, name) for name in names}
        return {**counts, "before": self.before.as_json(), "after": self.after.as_json(), "quality": UNKNOWN_QUALITY}


@dataclass(slots=True)
class LookReport:
    """Looks at the turns that the config sends to fast. Passing test runs are not recorded: there may be fewer."""

    max_seconds: float
    turns: int = 0
    unservable: int = 0
    on_fast: int = 0
    edited: int = 0
    late: int = 0
    """Expected to take longer than `max_seconds`, of those with `always`."""
    looks: dict[LookWhen, int] = field(default_factory=lambda: dict.fromkeys((LookWhen.AUTO, LookWhen.ALWAYS), 0))
    sums: dict[LookWhen, Sum] = field(default_factory=lambda: {when: Sum() for when in (LookWhen.AUTO, LookWhen.ALWAYS)})

    def add(self, case: Case, decision: Decision | None) -> None:
        if decision is None:
            self.unservable += 1
            return
        self.turns += 1
        if decision.tier is not Tier.FAST:
            return
        self.on_fast += 1
        deep = weighing_of(decision).deep
        if not case.edits or deep is None or RegretSign.INTERRUPTED in case.regrets:
            return
        self.edited += 1
        status = decision.signals.statuses[deep.target]
        tokens_in = min(MAX_TOKENS_IN, _AROUND_TOKENS + round(case.work.output_tokens if case.work is not None else 0))
        took = expect(status, tokens_in)
        self.late += took.seconds > self.max_seconds
        own = [LookWhen.ALWAYS]
        if pays(decision, status, case.edits, tokens_in, self.max_seconds, find_right_share(0, 0), holds=True):
            own.append(LookWhen.AUTO)
        for when in own:
            self.looks[when] += 1
            self.sums[when].add(took._replace(seconds=min(took.seconds, self.max_seconds)))

    def as_json(self) -> JsonObject:
        counts = {name: getattr(self, name) for name in ("turns", "unservable", "on_fast", "edited", "late")}
        of_each = {str(when): {"looks": count, **self.sums[when].as_json()} for when, count in self.looks.items()}
        return {**counts, **of_each, "quality": UNKNOWN_QUALITY}
