"""Live statistics of each target: what it lately did, falling back to what is typical of it when nothing is fresh."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from router.contract.errors import UpstreamRefused
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact, FirstToken, Read
from router.contract.target import Speed, Target, TargetStatus, WorkRatio

_KEPT_SAMPLES = 15
_HALF_LIFE_SECONDS = 10.0
_LONG_PROMPT_TOKENS = 8_000
_FRESH_SECONDS = 0.005
_NEVER_LOOKED = float("-inf")
_MAX_CLOSED_SECONDS = 900.0
"""However long a target asks to be left alone, one request goes there after this: quotas are raised, and hosts err."""
_NAMES_A_TIME = frozenset({429, 503, 529})
"""The refusals whose wait is about the target itself, and not about one request."""
_BOUND = 20.0
"""A sample further than this factor from typical is an accident, not a speed."""


@dataclass(slots=True)
class _Samples:
    typical: float
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_SAMPLES))
    middle: float = 0.0
    newest_at: float = 0.0

    def add(self, value: float, now: float) -> None:
        self.values.append(min(max(value, self.typical / _BOUND), self.typical * _BOUND))
        self.middle = median(self.values)  # here, where nobody waits, and not with every decision
        self.newest_at = now

    def current(self, now: float) -> float:
        """The recent median, fading into typical: a target once slow is tried again."""
        if not self.values:
            return self.typical
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / _HALF_LIFE_SECONDS)
        return weight * self.middle + (1 - weight) * self.typical


class _Live:
    """One target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ttft = _Samples(target.typical.ttft_seconds)
        self.speed = _Samples(target.typical.tokens_per_second)
        self.prefill = _Samples(target.typical.prefill_tokens_per_second)
        self.open: dict[str, float] = {}
        """When each call that is under way was opened, by its request."""
        self.unanswered: dict[str, float] = {}
        self.has_samples = False
        self.closed_until = self.probe_at = 0.0
        self.probe = ""
        """The request that finds out whether it is open again before the time that it named."""
        self.ratio = WorkRatio()

    def add(self, samples: _Samples, value: float, now: float) -> None:
        """Take a figure that was seen of it."""
        samples.add(value, now)
        self.has_samples = True

    def follow(self, target: Target) -> None:
        """Keep the figures for a target that a new config describes otherwise."""
        for samples, typical in zip((self.ttft, self.speed, self.prefill), target.typical, strict=True):
            samples.typical = typical
        self.target = target

    def status(self, now: float) -> TargetStatus:
        speed = self.target.typical
        if self.has_samples:
            speed = Speed(self.ttft.current(now), self.speed.current(now), self.prefill.current(now))
        # A request that waits for its first token shows a queue before any sample can.
        wait = max(0.0, now - next(iter(self.unanswered.values())) - speed.ttft_seconds) if self.unanswered else 0.0
        closed = self._closed_seconds(now) if self.closed_until > now else 0.0
        return TargetStatus(self.target, speed, wait, len(self.open), self.ratio, closed)

    def _closed_seconds(self, now: float) -> float:
        """How long to leave it alone. While a request finds out whether it is open again, no other goes there."""
        if now < self.probe_at:
            return self.probe_at - now
        return self.closed_until - now if self.probe else 0.0

    def close(self, now: float, seconds: float) -> None:
        """It asked to be left alone. What it says last counts, be it less than what it said before."""
        self.closed_until, self.probe_at = now + seconds, now + min(seconds, _MAX_CLOSED_SECONDS)


class LiveStatistics:
    """Fed by what happens to requests, read by the decision. All times come from one monotonic clock.

    It outlives a plan: a target that is configured anew keeps its figures, and one that is gone is no longer listed.
    """

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}
        self._ratios: Mapping[str, WorkRatio] = {}
        self._looked_at = _NEVER_LOOKED
        self._targets: Mapping[str, Target] = {}
        self._listed: Mapping[str, _Live] = {}
        self._statuses: Mapping[str, TargetStatus] = {}

    def statuses(self, targets: Mapping[str, Target], now: float) -> Mapping[str, TargetStatus]:
        """Every target as it is now (or was five milliseconds ago), in the order given."""
        if targets is not self._targets:
            self._targets = targets
            self._listed = {name: self._of(target) for name, target in targets.items()}
        elif 0 <= now - self._looked_at < _FRESH_SECONDS:
            return self._statuses
        self._looked_at = now
        self._statuses = {name: live.status(now) for name, live in self._listed.items()}
        return self._statuses

    def learn(self, ratios: Mapping[str, WorkRatio]) -> None:
        """How much work each target makes of a turn, as the ledger shows it. Until it is known it is as expected."""
        self._ratios = ratios
        for name, live in self._live.items():
            live.ratio = ratios.get(name, WorkRatio())

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {AttemptOpened: self._open, FirstToken: self._begin, AttemptEnded: self._end}

    def _of(self, target: Target) -> _Live:
        live = self._live.get(target.name)
        if live is None:
            live = self._live[target.name] = _Live(target)
            live.ratio = self._ratios.get(target.name, WorkRatio())
        elif live.target is not target:
            live.follow(target)
        return live

    # A call under way may have begun under an earlier plan, whose target changes nothing of one that is known.

    def _open(self, exchange: Exchange, fact: AttemptOpened) -> None:
        """Only a stream shows when its first token is late."""
        live, read = self._live.get(fact.target.name) or self._of(fact.target), exchange.last(Read)
        live.open[exchange.id] = fact.at
        if live.closed_until > fact.at and not live.probe:
            live.probe = exchange.id
            self._looked_at = _NEVER_LOOKED
        if read is not None and read.view.is_streaming:
            live.unanswered[exchange.id] = fact.at

    def _begin(self, exchange: Exchange, fact: FirstToken) -> None:
        """A long prompt tells how fast the target reads, a short one how soon it starts."""
        live, decided = self._live.get(fact.target.name) or self._of(fact.target), exchange.last(Decided)
        opened_at = live.open.get(exchange.id)
        live.unanswered.pop(exchange.id, None)
        if decided is None or opened_at is None:
            return
        tokens, seconds = decided.decision.prompt_tokens, fact.at - opened_at
        if tokens >= _LONG_PROMPT_TOKENS:
            live.add(live.prefill, tokens / max(seconds - live.ttft.current(fact.at), 0.001), fact.at)
        else:
            live.add(live.ttft, seconds, fact.at)

    def _end(self, exchange: Exchange, fact: AttemptEnded) -> None:
        live, error = self._live.get(fact.target.name) or self._of(fact.target), fact.error
        live.open.pop(exchange.id, None)
        if live.unanswered:
            live.unanswered.pop(exchange.id, None)
        if fact.tokens_per_second is not None and fact.is_targets_own_speed:
            live.add(live.speed, fact.tokens_per_second, fact.at)
        if error is not None or live.probe:
            self._heed_wait(live, exchange, fact)

    def _heed_wait(self, live: _Live, exchange: Exchange, fact: AttemptEnded) -> None:
        """Close a target that named a time, and open one that served before its time was over."""
        error, was_probe = fact.error, live.probe == exchange.id
        if was_probe:
            live.probe = ""
        if isinstance(error, UpstreamRefused) and error.status in _NAMES_A_TIME and error.retry_after_seconds:
            live.close(fact.at, error.retry_after_seconds)
        elif was_probe and error is None and fact.attempt.error is None:
            live.closed_until = 0.0
        else:
            return
        self._looked_at = _NEVER_LOOKED  # the next decision must know
