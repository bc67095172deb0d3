"""One target's live state: pace, queue, circuit, window. Times are given."""

import asyncio

from msgspec import structs
from msgspec.structs import replace

from router.contract.target import NOTHING_LEARNED, Target, TargetStatus, WorkRatio
from router.contract.usage import Usage
from router.dispatch.live.circuit import Circuit
from router.dispatch.live.pace import Pace
from router.dispatch.live.queue import Queue
from router.dispatch.meter import TokenSize

RESTED_WAIT_SECONDS = 60.0
"""Expected wait at a resting target: long enough that any other is preferred."""
_WINDOW_KNOWN_SECONDS = 60.0
"""How long a window named by the target is trusted before the configured one is tried again, where nothing else can serve."""


class Window:
    """The configured window, or a smaller one that the target named."""

    def __init__(self, target: Target) -> None:
        self.known = self._configured = target
        self._told_at = 0.0

    @property
    def is_told(self) -> bool:
        return self.known is not self._configured

    def tell(self, tokens: int, now: float) -> bool:
        """Take a window named by the target, at most the configured one. Returns whether it is news."""
        self._told_at = now
        before, configured = self.known.window_tokens, self._configured
        tokens = min(tokens, configured.window_tokens)
        if tokens != before:
            self.known = configured if tokens == configured.window_tokens else replace(configured, window_tokens=tokens)
        return tokens != before

    def doubt(self, usage: Usage | None) -> bool:
        """A prompt was served. Returns whether it exceeds the named window, which is then dropped."""
        if not self.is_told or usage is None or usage.is_estimated or usage.input_tokens <= self.known.window_tokens:
            return False
        self.known = self._configured
        return True

    def to_try(self, now: float) -> int | None:
        """The configured window, when it is time to test the named one."""
        is_old = self.is_told and now - self._told_at >= _WINDOW_KNOWN_SECONDS
        return self._configured.window_tokens if is_old else None

    def follow(self, target: Target) -> None:
        if not self.is_told or target != self._configured:
            self.known = target
        self._configured = target


class LiveTarget:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.window, self.pace, self.circuit = Window(target), Pace(target.typical), Circuit()
        self.queue = Queue(self.pace)
        self.token_size = TokenSize()
        self.ratio, self.failures = WorkRatio(), NOTHING_LEARNED
        self.waiters: list[asyncio.Future[None]] = []
        """Requests that move here once it is known to serve."""
        self.is_awaited = False
        self.is_watched = False
        """Whether it fails, is probed or awaited, or named its window: an answer then matters beyond speed."""
        self.is_still = False
        """Whether its status is constant until the next call: nothing is under way or fading."""

    def status(self, now: float) -> TargetStatus:
        queue = self.queue
        status = TargetStatus(
            self.window.known, self.pace.current(now), 0.0, len(queue.open), self.ratio, failures=self.failures
        )
        self.is_still = not queue.open and self.pace.fades_until <= now
        if self.circuit.closed_until > now:
            self.is_still = False
            closed, may_probe = self.circuit.closed_seconds(now), self.circuit.may_probe(now)
            status = structs.replace(status, closed_seconds=closed, may_probe=may_probe)
        if queue.unanswered or queue.lateness.seconds:
            self.is_still = False
            status = self._queued(status, now)
        if self.is_watched:
            self.is_still = False
            status = self._at_rest(status, now)
        return status

    def _queued(self, status: TargetStatus, now: float) -> TargetStatus:
        """Add the queue. A permanent one delays each further call of a turn, unless a longest wait moves requests on."""
        wait = self.queue.wait(now)
        if self.target.max_wait_seconds is None and self.queue.lateness.is_standing(now):
            return structs.replace(status, speed=status.speed._replace(ttft_seconds=status.speed.ttft_seconds + wait))
        return status.with_wait(wait)

    def _at_rest(self, status: TargetStatus, now: float) -> TargetStatus:
        circuit = self.circuit
        if (window := self.window.to_try(now)) is not None:
            status = structs.replace(status, window_to_try=window)
        if circuit.loading_until > now:
            status = structs.replace(status, closed_seconds=circuit.loading_until - now, loading=circuit.loading)
        if self.queue.is_full(now):
            because = f"{self.target.name} already has the {self.queue.most} requests that it takes at once"
        elif circuit.is_resting(now):
            because = self.rest_words
        else:
            return status
        return status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), because, is_resting=True)

    @property
    def rest_words(self) -> str:
        failures = self.circuit.failures
        return f"{self.target.name} rests after {f'{failures} failures in a row' if failures > 1 else 'a failure'}"

    def follow(self, target: Target) -> None:
        """Keep the figures under a new config, unless the model changed."""
        is_other = target.model != self.target.model
        self.pace.follow(target.typical, is_other_model=is_other)
        if is_other:
            self.queue.forget()
            self.token_size = TokenSize()
        self.window.follow(target)
        self.target = target

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
