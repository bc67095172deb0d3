"""The figures at `/metrics`, counted from requests that are over. A label is a word of a closed set, or a name from the config.

A finished request is only put on a list. The list is counted when somebody asks for the figures, and at the latest when it has
64 entries: many in a row cost less than each on its own. Names and descriptions are in `metric_table`, and
`edge.control.metrics` serves them.
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

from router.contract.entry import Attempt, Line
from router.contract.errors import BudgetSpent
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Fact, Recorded
from router.contract.spending import as_units, as_usd
from router.contract.words import PERSONS_KINDS, Outcome, Tier
from router.telemetry.log import DefectLog

NONE = "none"
"""The label of a request that no tier or target was chosen for, and of an attempt that did not fail."""
OTHER = "other"
"""The label of callers without a key, and of those after the first 200."""
MAX_CALLERS = 200
_MAX_REMOVED_TARGETS = 100
"""Targets that a reload removed keep their figures, so that no sum goes down. Of more than these, the oldest are dropped."""
_MAX_WAITING = 64
"""More would hold up the event loop when they are counted."""
_UNANSWERED = frozenset({Outcome.FAILED, Outcome.REFUSED, Outcome.SUPERSEDED})
_SERVED = str(Outcome.SERVED)
_decode_attempts = msgspec.json.Decoder(list[Attempt]).decode

Labels = tuple[str, ...]
Samples = Mapping[Labels, float]


_Finished = tuple[Line, str, str, str, Tier | None]
"""A request's line, its attempts as JSON, the tier that was decided on, who decided, and the session's tier before it."""


class Buckets(NamedTuple):
    """A histogram for each set of labels: how many values fell into each bucket, not cumulated, and their sum at the end."""

    bounds: tuple[float, ...]
    rows: dict[Labels, list[float]]

    def observe(self, labels: Labels, value: float) -> None:
        row = self.rows.get(labels)
        if row is None:
            row = self.rows[labels] = [0] * (len(self.bounds) + 1) + [0.0]
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def copy(self) -> "Buckets":
        return Buckets(self.bounds, {labels: [*row] for labels, row in self.rows.items()})


_REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_TTFT_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)
_OVERHEAD_SECONDS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
_TOKENS_PER_SECOND = (5.0, 10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 750.0, 1e3, 1.5e3, 2e3, 3e3, 5e3)


class Metrics:
    """Counts finished requests. Used by the event loop's thread alone."""

    def __init__(self, report: Callable[[str, Exception], None] | None = None) -> None:
        """`report` is called with the id of a request that could not be counted."""
        self._report = report or DefectLog().report_by_id
        self._targets: dict[str, None] = {}
        self._counts_callers = False
        self.start_again()

    def start_again(self) -> None:
        """Count from zero: metrics were switched on."""
        self.began_at = time.time()
        self._waiting: list[_Finished] = []
        self._requests: defaultdict[Labels, int] = defaultdict(int)
        self._attempts: defaultdict[Labels, int] = defaultdict(int)
        self._decisions: defaultdict[Labels, int] = defaultdict(int)
        self._tokens: dict[Labels, int] = {("input",): 0, ("cached",): 0, ("output",): 0, ("reasoning",): 0}
        self._cost_units: defaultdict[Labels, int] = defaultdict(int, {(tier.value,): 0 for tier in Tier})
        self._hops = self._budget_refusals = 0
        self._callers: dict[str, list[int]] = {}
        self._seconds = Buckets(_REQUEST_SECONDS, {})
        self._ttft = Buckets(_TTFT_SECONDS, {})
        self._overhead = Buckets(_OVERHEAD_SECONDS, {})
        self._speed = Buckets(_TOKENS_PER_SECOND, {})

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: self._note}

    def _note(self, exchange: Exchange, recorded: Recorded) -> None:
        entry, decided, waiting = recorded.entry, exchange.last(Decided), self._waiting
        if decided is None:
            waiting.append((entry.line, entry.attempts, "", "", None))
        else:
            decision = decided.decision
            waiting.append((entry.line, entry.attempts, decision.tier, decision.decided_by, decided.session.state.tier))
        if len(waiting) >= _MAX_WAITING:
            self._count_waiting()

    def follow(self, targets: Collection[str], *, callers: bool) -> None:
        """Take what a config says: the names of its targets, and whether callers are counted one by one."""
        self._count_waiting()
        self._targets = dict.fromkeys((*(name for name in self._targets if name not in targets), *targets))
        removed = [name for name in self._targets if name not in targets][:-_MAX_REMOVED_TARGETS]
        if removed:
            self._drop_targets(frozenset(removed))
        self._counts_callers = callers
        if not callers:
            self._callers.clear()

    def _drop_targets(self, names: frozenset[str]) -> None:
        for name in names:
            del self._targets[name]
        places: tuple[tuple[int, dict[Labels, int] | dict[Labels, list[float]]], ...]
        places = ((1, self._requests), (0, self._attempts), (1, self._ttft.rows), (1, self._speed.rows))
        for place, rows in places:
            for labels in [labels for labels in rows if labels[place] in names]:
                del rows[labels]

    def _count_waiting(self) -> None:
        finished, self._waiting = self._waiting, []
        for line, attempts, tier, decided_by, before in finished:
            try:
                self._count(line, attempts)
                if decided_by:
                    self._decisions[tier, decided_by] += 1
                    if before is not None and before != line.tier:
                        self._hops += line.turn_kind in PERSONS_KINDS and line.outcome not in _UNANSWERED
                if self._counts_callers:
                    self._count_caller(line)
            except Exception as error:  # noqa: BLE001  what one request has wrong must not cost the others their figures
                self._report(line.id, error)

    def _count(self, line: Line, attempts: str) -> None:
        tier, target, outcome = line.tier or NONE, line.target or NONE, line.outcome
        self._requests[tier, target, outcome] += 1
        if line.attempts == 1 and outcome == _SERVED:
            self._attempts[target, NONE] += 1
        elif not line.attempts:
            self._budget_refusals += line.error == BudgetSpent.code
        else:
            for attempt in _decode_attempts(attempts):
                self._attempts[attempt.target, attempt.error or NONE] += 1
        self._seconds.observe((tier,), line.duration_ms / 1000)
        self._overhead.observe((), line.overhead_ms / 1000)
        if (ttft := line.ttft_ms) is not None:
            self._ttft.observe((tier, target), ttft / 1000)
        if (speed := line.tokens_per_second) is not None:
            self._speed.observe((tier, target), speed)
        if (output := line.output_tokens) is not None:
            tokens = self._tokens
            tokens["input",] += line.input_tokens or 0
            tokens["output",] += output
            tokens["cached",] += line.cached_tokens or 0
            tokens["reasoning",] += line.reasoning_tokens or 0
        if cost := line.cost_usd:
            self._cost_units[tier,] += as_units(cost)

    def _count_caller(self, line: Line) -> None:
        """For the caller, if it is known by a key: everybody else's name comes with a request, and may be anything."""
        known = self._callers
        name = line.caller if line.key is not None and (line.caller in known or len(known) < MAX_CALLERS) else OTHER
        counts = known.setdefault(name, [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += line.input_tokens or 0
        counts[2] += line.output_tokens or 0
        counts[3] += as_units(line.cost_usd or 0.0)

    def counts(self) -> dict[str, Samples]:
        """Every counter by its name. Copies: they may be read in another thread."""
        self._count_waiting()
        counted: dict[str, Samples] = {
            "tandem_requests_total": dict(self._requests),
            "tandem_tokens_total": dict(self._tokens),
            "tandem_cost_usd_total": {labels: as_usd(units) for labels, units in self._cost_units.items()},
            "tandem_attempts_total": dict(self._attempts),
            "tandem_decisions_total": dict(self._decisions),
            "tandem_hops_total": {(): self._hops},
            "tandem_budget_refusals_total": {(): self._budget_refusals},
        }
        if self._counts_callers:
            callers = self._callers.items()
            counted["tandem_caller_requests_total"] = {(name,): counts[0] for name, counts in callers}
            kinds = ((1, "input"), (2, "output"))
            counted["tandem_caller_tokens_total"] = {
                (name, kind): counts[place] for name, counts in callers for place, kind in kinds
            }
            counted["tandem_caller_cost_usd_total"] = {(name,): as_usd(counts[3]) for name, counts in callers}
        return counted

    def histograms(self) -> dict[str, Buckets]:
        """Every histogram by its name, copied as well."""
        self._count_waiting()
        found = {
            "tandem_request_seconds": self._seconds,
            "tandem_ttft_seconds": self._ttft,
            "tandem_overhead_seconds": self._overhead,
            "tandem_output_tokens_per_second": self._speed,
        }
        return {name: own.copy() for name, own in found.items()}
