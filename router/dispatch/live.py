"""Live statistics of each target: what it lately did, falling back to what is typical of it when nothing is fresh."""

import asyncio
from collections.abc import Mapping, Sequence

from router.contract.errors import TandemError, UpstreamRefused
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact, FirstToken, LimitsTold, Read
from router.contract.target import Speed, Target, TargetStatus, WorkRatio
from router.dispatch.budget import Allowance, RetryBudget
from router.dispatch.circuit import Circuit, is_targets_failure
from router.dispatch.limits import RateLimits
from router.dispatch.samples import Samples

_LONG_PROMPT_TOKENS = 8_000
_FRESH_SECONDS = 0.005
_NEVER_LOOKED = float("-inf")
_MAX_CLOSED_SECONDS = 900.0
"""However long a target asks to be left alone, one request goes there after this: quotas are raised, and hosts err."""
RESTED_WAIT_SECONDS = 60.0
"""How long a request is expected to wait at a target that rests: long enough that another is taken wherever there is one."""
_TOO_MANY = 429
_NAMES_A_TIME = frozenset({_TOO_MANY, 503, 529})
"""The refusals whose wait is about the target itself, and not about one request."""


class _Live:
    """One target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ttft = Samples(target.typical.ttft_seconds)
        self.speed = Samples(target.typical.tokens_per_second)
        self.prefill = Samples(target.typical.prefill_tokens_per_second)
        self.open: dict[str, float] = {}
        """When each call that is under way was opened, by its request."""
        self.unanswered: dict[str, float] = {}
        self.has_samples = False
        self.closed_until = self.probe_at = 0.0
        self.probe = ""
        """The request that finds out whether it is open again before the time that it named."""
        self.ratio = WorkRatio()
        self.circuit = Circuit()
        self.waiters: list[asyncio.Future[None]] = []
        """Requests that move here as soon as it is known to serve."""
        self.is_watched = False
        """Whether it fails, is being probed or is waited for: only then does an answer mean more than its speed."""

    def add(self, samples: Samples, value: float, now: float) -> None:
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
        if self.is_watched:
            return self._at_rest(TargetStatus(self.target, speed, wait, len(self.open), self.ratio, closed), now)
        return TargetStatus(self.target, speed, wait, len(self.open), self.ratio, closed)

    def _at_rest(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with a long wait if it rests, or if one request is finding out about it."""
        if not self.circuit.is_open or (now >= self.circuit.rested_until and not self.probe):
            return status
        because = f"{self.target.name} rests after {self.circuit.failures} failures in a row"
        return status._replace(wait_seconds=max(status.wait_seconds, RESTED_WAIT_SECONDS), wait_because=because)

    def _closed_seconds(self, now: float) -> float:
        """How long to leave it alone. While a request finds out whether it is open again, no other goes there."""
        if now < self.probe_at:
            return self.probe_at - now
        return self.closed_until - now if self.probe else 0.0

    def wake(self) -> None:
        """Tell who waits that there is news."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

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
        self._has_rested = False
        """Whether any target ever had to rest: seldom so, and each decision would ask."""
        self.budget, self.limits = RetryBudget(), RateLimits()

    def statuses(self, targets: Mapping[str, Target], now: float) -> Mapping[str, TargetStatus]:
        """Every target as it is now (or was five milliseconds ago), in the order given."""
        if targets is not self._targets:
            self._targets = targets
            self._listed = {name: self._of(target) for name, target in targets.items()}
        elif 0 <= now - self._looked_at < _FRESH_SECONDS:
            return self._statuses
        self._looked_at = now
        self._statuses = {name: live.status(now) for name, live in self._listed.items()}
        if self._has_rested and all(live.circuit.is_open for live in self._listed.values()):
            # Where every target rests, none is better for waiting: a request must have somewhere to go.
            self._statuses = {
                name: status._replace(wait_seconds=0.0, wait_because="") for name, status in self._statuses.items()
            }
        return self._statuses

    def allowance(self, candidates: Sequence[Target], failed: str, now: float) -> Allowance:
        """What a request may do whose attempt at one of these targets has failed."""
        own = self._live.get(failed)
        since = own.circuit.failing_since if own is not None else now
        known = [live for target in candidates if (live := self._live.get(target.name)) is not None]
        standings = {live.target.name: live.circuit.standing(now, since, self._awaited(live)) for live in known}
        active = 1 + sum(len(live.open) + len(live.waiters) for live in self._live.values())
        return Allowance(self.budget.has_room(now, active), standings)

    def _awaited(self, live: _Live) -> int:
        return max(len(live.open), self.budget.under_way(live.target.name))

    async def await_news(self, target: Target, seconds: float) -> None:
        """Wait until a call of this target has begun to answer, or is over; so long at most."""
        live = self._of(target)
        news = asyncio.get_running_loop().create_future()
        live.waiters.append(news)
        live.is_watched = True
        try:
            await asyncio.wait((news,), timeout=seconds)
        finally:
            if news in live.waiters:
                live.waiters.remove(news)

    def learn(self, ratios: Mapping[str, WorkRatio]) -> None:
        """How much work each target makes of a turn, as the ledger shows it. Until it is known it is as expected."""
        self._ratios = ratios
        for name, live in self._live.items():
            live.ratio = ratios.get(name, WorkRatio())

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {AttemptOpened: self._open, FirstToken: self._begin, AttemptEnded: self._end, LimitsTold: self.limits.note}

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
        if live.is_watched and not live.probe and (live.circuit.is_open or live.closed_until > fact.at):
            live.probe = exchange.id
            self._looked_at = _NEVER_LOOKED
        if read is not None and read.view.is_streaming:
            live.unanswered[exchange.id] = fact.at

    def _begin(self, exchange: Exchange, fact: FirstToken) -> None:
        """A long prompt tells how fast the target reads, a short one how soon it starts."""
        live, decided = self._live.get(fact.target.name) or self._of(fact.target), exchange.last(Decided)
        opened_at = live.open.get(exchange.id)
        live.unanswered.pop(exchange.id, None)
        live.circuit.served_at = fact.at
        if live.is_watched:
            self._note_served(live, exchange, opened_at, fact.at)
        if decided is None or opened_at is None:
            return
        tokens, seconds = decided.decision.prompt_tokens, fact.at - opened_at
        if tokens >= _LONG_PROMPT_TOKENS:
            live.add(live.prefill, tokens / max(seconds - live.ttft.current(fact.at), 0.001), fact.at)
        else:
            live.add(live.ttft, seconds, fact.at)

    def _end(self, exchange: Exchange, fact: AttemptEnded) -> None:
        live, error = self._live.get(fact.target.name) or self._of(fact.target), fact.error
        opened_at = live.open.pop(exchange.id, None)
        if live.unanswered:
            live.unanswered.pop(exchange.id, None)
        if fact.tokens_per_second is not None and fact.is_targets_own_speed:
            live.add(live.speed, fact.tokens_per_second, fact.at)
        if error is not None or live.is_watched:
            self._judge(live, exchange, opened_at, fact)
        elif fact.attempt.error is None:
            live.circuit.served_at = fact.at

    def _judge(self, live: _Live, exchange: Exchange, opened_at: float | None, fact: AttemptEnded) -> None:
        """What the end of a call says of its target. One that its caller left says nothing."""
        error = fact.error
        if error is None and fact.attempt.error is None:
            self._note_served(live, exchange, opened_at, fact.at)
        elif error is not None and is_targets_failure(error):
            self._note_failed(live, exchange, error, fact.at)
        if live.probe == exchange.id:
            live.probe = ""
        live.wake()
        live.is_watched = bool(live.probe or live.circuit.failures)
        self._looked_at = _NEVER_LOOKED  # the next decision must know

    def _note_served(self, live: _Live, exchange: Exchange, opened_at: float | None, now: float) -> None:
        """It serves: it need not rest, and whoever waits may go there. A call from before the failures says nothing of that.

        The time that it named is over only for a call that was sent to find that out.
        """
        if opened_at is not None and opened_at >= live.circuit.failing_since:
            live.circuit.serve(now)
            live.wake()
        if live.probe == exchange.id:
            live.closed_until = 0.0
        self._looked_at = _NEVER_LOOKED

    def _note_failed(self, live: _Live, exchange: Exchange, error: TandemError, now: float) -> None:
        seconds = error.retry_after_seconds
        if live.target.takes_callers_key and error.status == _TOO_MANY:  # one caller's limit is no other's
            if seconds:
                self.limits.close(exchange, live.target, now + seconds)
            return
        has_named_time = isinstance(error, UpstreamRefused) and error.status in _NAMES_A_TIME and bool(seconds)
        live.circuit.fail(now, has_named_time=has_named_time)
        self._has_rested = self._has_rested or live.circuit.is_open
        if has_named_time and seconds:
            live.close(now, seconds)
