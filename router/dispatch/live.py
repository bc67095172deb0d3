"""Live statistics of each target: what it lately did, falling back to what is typical of it when nothing is fresh."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from router.contract.target import Speed, Target, TargetStatus, WorkRatio

_KEPT_SAMPLES = 15
_HALF_LIFE_SECONDS = 10.0
_LONG_PROMPT_TOKENS = 8_000
_FRESH_SECONDS = 0.005
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
        self.unanswered: dict[int, float] = {}
        self.in_flight = 0
        self.closed_until = 0.0
        self.ratio = WorkRatio()

    def status(self, now: float) -> TargetStatus:
        speed = Speed(self.ttft.current(now), self.speed.current(now), self.prefill.current(now))
        wait = max(0.0, self.closed_until - now)
        if self.unanswered:
            # A request that waits for its first token shows a queue before any sample can.
            wait = max(wait, now - next(iter(self.unanswered.values())) - speed.ttft_seconds)
        return TargetStatus(self.target, speed, wait, self.in_flight, self.ratio)


class LiveStatistics:
    """Fed by the dispatcher, read by the decision. All times come from one monotonic clock."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._live = {target.name: _Live(target) for target in targets}
        self._next = 0
        self._looked_at = float("-inf")
        self._statuses: Mapping[str, TargetStatus] = {}

    def statuses(self, now: float) -> Mapping[str, TargetStatus]:
        """Every target as it is now (or was five milliseconds ago), in the order of the config."""
        if not 0 <= now - self._looked_at < _FRESH_SECONDS:
            self._looked_at = now
            self._statuses = {name: live.status(now) for name, live in self._live.items()}
        return self._statuses

    def learn(self, ratios: Mapping[str, WorkRatio]) -> None:
        """How much work each target makes of a turn, as the ledger shows it. One of which nothing is known is as expected."""
        for name, live in self._live.items():
            live.ratio = ratios.get(name, WorkRatio())

    def began(self, target: str, now: float, *, is_streaming: bool) -> int:
        """A call was opened. Returns its number, for the calls below. Only a stream shows when its first token is late."""
        self._next += 1
        live = self._live[target]
        live.in_flight += 1
        if is_streaming:
            live.unanswered[self._next] = now
        return self._next

    def answered(self, target: str, number: int, seconds: float, prompt_tokens: int, now: float) -> None:
        """The first token came. A long prompt tells how fast the target reads, a short one how soon it starts."""
        live = self._live[target]
        live.unanswered.pop(number, None)
        if prompt_tokens >= _LONG_PROMPT_TOKENS:
            reading = max(seconds - live.ttft.current(now), 0.001)
            live.prefill.add(prompt_tokens / reading, now)
        else:
            live.ttft.add(seconds, now)

    def ended(self, target: str, number: int, now: float, tokens_per_second: float | None) -> None:
        """The call is over, one way or another."""
        live = self._live[target]
        live.in_flight -= 1
        live.unanswered.pop(number, None)
        if tokens_per_second is not None:
            live.speed.add(tokens_per_second, now)

    def asked_to_wait(self, target: str, seconds: float, now: float) -> None:
        """The target said when to come again."""
        live = self._live[target]
        live.closed_until = max(live.closed_until, now + seconds)
