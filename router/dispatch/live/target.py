"""One target as it is now: its pace, its queue, whether it rests or asked to be left alone. No clock: times are given."""

import asyncio
from collections.abc import Mapping

from router.contract.target import NOTHING_LEARNED, Speed, Target, TargetStatus, WorkRatio
from router.dispatch.live.circuit import Circuit
from router.dispatch.live.lateness import Lateness, is_late
from router.dispatch.live.past import LONG_PROMPT_TOKENS, PastPace
from router.dispatch.live.samples import Samples

_MAX_CLOSED_SECONDS = 900.0
"""However long a target asks to be left alone, one request goes there after this: quotas are raised, and hosts err."""
_PROBE_SECONDS = 60.0
"""How often a request goes to targets that asked to be left alone, where there is no other that could serve it."""
RESTED_WAIT_SECONDS = 60.0
"""How long a request is expected to wait at a target that rests: long enough that another is taken wherever there is one."""
_MOST_KNOWN_SECONDS = 60.0
"""How long it is believed that a target takes no more requests at once than it had when it refused one."""


class LiveTarget:
    """What is known of one target by the calls that it had."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ttft = Samples(target.typical.ttft_seconds)
        self.speed = Samples(target.typical.tokens_per_second)
        self.prefill = Samples(target.typical.prefill_tokens_per_second)
        self.is_counted = True
        """Whether its speed comes from counted pieces alone: it has not said yet how many tokens it wrote."""
        self.has_recalled = False
        self.reading: dict[str, float] = {}
        """How long each long prompt under way took to its first token. How much of it was read its end tells."""
        self.lateness = Lateness()
        self.open: dict[str, float] = {}
        """When each call that is under way was opened, by its request."""
        self.unanswered: dict[str, float] = {}
        """When each stream under way that has no token yet was to have its first one."""
        self.has_samples = False
        self.closed_until = self.probe_at = 0.0
        self.asked_at = 0.0
        """When it last refused with a time, or when a request last went there to find out whether that time was right."""
        self.probe = ""
        """The request that finds out whether it is open again before the time that it named."""
        self.ratio = WorkRatio()
        self.failures = NOTHING_LEARNED
        self.circuit = Circuit()
        self.waiters: list[asyncio.Future[None]] = []
        """Requests that move here as soon as it is known to serve."""
        self.most_at_once, self.most_known_at = 0, 0.0
        """How many requests it takes at once, as a refusal showed, and when."""
        self.is_watched = False
        """Whether it fails, is being probed or is waited for: only then does an answer mean more than its speed."""

    def add(self, samples: Samples, value: float, now: float) -> None:
        """Take a figure that was seen of it."""
        samples.add(value, now)
        self.has_samples = True

    def add_speed(self, value: float, now: float, *, is_counted: bool) -> None:
        """Take how fast it wrote. Counted pieces are not all tokens: they count until the target says how many there were."""
        if is_counted != self.is_counted:
            if is_counted:
                return
            self.is_counted = False
            self.speed.forget()
        self.add(self.speed, value, now)

    def recall(self, past: PastPace, newest_at: float) -> None:
        """Take what the ledger knows of it, the newest of which was seen at that time. Calls that waited are no measure."""
        self.has_recalled = True
        speed, usual = past.speed, self.ttft.usual
        ttft = [seconds for seconds in past.ttft if not is_late(seconds - usual, usual)]
        if self.is_counted and speed and not past.is_counted:
            self.is_counted = False
            self.speed.forget()
        elif past.is_counted and not self.is_counted:
            speed = ()
        for samples, minutes in ((self.ttft, ttft), (self.speed, speed), (self.prefill, past.prefill)):
            if minutes:
                samples.recall(minutes, newest_at)
                self.has_samples = True

    @property
    def sources(self) -> Mapping[str, str]:
        """Where each figure comes from: the config's guess, what was learned, or an estimate by counted pieces."""
        learned = {"ttft_seconds": self.ttft, "tokens_per_second": self.speed, "prefill_tokens_per_second": self.prefill}
        sources = {name: "learned" if samples.is_learned else "config" for name, samples in learned.items()}
        if self.is_counted and self.speed.is_learned:
            sources["tokens_per_second"] = "estimated"
        return sources

    def settle(self, now: float) -> None:
        """Work out again what is usual of it."""
        for samples in (self.ttft, self.speed, self.prefill):
            samples.settle(now)

    def follow(self, target: Target) -> None:
        """Keep the figures for a target that a new config describes otherwise, unless it is another model."""
        is_other = target.model != self.target.model
        for samples, typical in zip((self.ttft, self.speed, self.prefill), target.typical, strict=True):
            if is_other:
                samples.forget()
            samples.follow(typical)
        if is_other:
            self.is_counted, self.has_recalled = True, False
        self.target = target

    def status(self, now: float) -> TargetStatus:
        speed = self.target.typical
        if self.has_samples:
            speed = Speed(self.ttft.current(now), self.speed.current(now), self.prefill.current(now))
        status = TargetStatus(self.target, speed, 0.0, len(self.open), self.ratio, failures=self.failures)
        if self.closed_until > now:
            status = status._replace(closed_seconds=self.closed_seconds(now), may_probe=self.may_probe(now))
        if self.unanswered or self.lateness.seconds:
            status = self._queued(status, now)
        return self._at_rest(status, now) if self.is_watched else status

    def _queued(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with its queue. A request that waits for its first token shows that before any answer can.

        Where all calls have been late for long, that is how the target is: each further call of a turn would wait as well,
        unless requests move on after their longest wait.
        """
        lateness = self.lateness
        if self.unanswered:
            name, due = next(iter(self.unanswered.items()))
            wait = lateness.expect_behind(now - due, due - self.open.get(name, due), now)
        else:
            wait = lateness.expect(now)
        if self.target.max_wait_seconds is None and lateness.is_standing(now):
            return status._replace(speed=status.speed._replace(ttft_seconds=status.speed.ttft_seconds + wait))
        return status.with_wait(wait)

    def usual_seconds(self, prompt_tokens: int) -> float:
        """How long a prompt usually waits for its first token. How a short one is read is part of what is usual."""
        reading = prompt_tokens / self.prefill.usual if prompt_tokens >= LONG_PROMPT_TOKENS else 0.0
        return self.ttft.usual + reading

    def begin(self, name: str, opened_at: float, now: float) -> bool:
        """The first token of a call is here: whether it was prompt, or the call waited in a queue."""
        due = self.unanswered.pop(name, now)
        if is_late(now - due, due - opened_at):
            self.lateness.begin_late(now - due, opened_at, now)
            return False
        self.lateness.begin_promptly(opened_at)
        # A call that was sent before this one, and has nothing yet, is slow for a reason of its own.
        while self.unanswered and self.open.get(other := next(iter(self.unanswered)), opened_at) < opened_at:
            del self.unanswered[other]
        return True

    def leave(self, name: str, opened_at: float | None, now: float) -> None:
        """A call ended before its first token. When it was opened counts only if nobody wanted to wait for it any longer."""
        due = self.unanswered.pop(name)
        if opened_at is not None and is_late(now - due, due - opened_at):
            self.lateness.leave(now - due, opened_at, now)

    def _at_rest(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with a long wait if it rests, if one request is finding out about it, or if it has all that it takes."""
        if self.most_at_once and now - self.most_known_at > _MOST_KNOWN_SECONDS:
            self.most_at_once = 0
        if 0 < self.most_at_once <= len(self.open):
            because = f"{self.target.name} takes {self.most_at_once} requests at once, and has them"
            return status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), because, is_resting=True)
        if not self.is_resting(now):
            return status
        return status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), self.rest_words, is_resting=True)

    def is_resting(self, now: float) -> bool:
        """Whether it is to be left alone after failures, or one request is finding out about it."""
        return self.circuit.is_open and (now < self.circuit.rested_until or bool(self.probe))

    @property
    def rest_words(self) -> str:
        """Why it rests."""
        failures = self.circuit.failures
        return f"{self.target.name} rests after {f'{failures} failures in a row' if failures > 1 else 'a failure'}"

    def closed_seconds(self, now: float) -> float:
        """How long to leave it alone. While a request finds out whether it is open again, no other goes there."""
        if now < min(self.probe_at, self.closed_until):
            return self.probe_at - now
        return max(0.0, self.closed_until - now) if self.probe else 0.0

    def may_probe(self, now: float) -> bool:
        """Whether a request that no other target can serve may go there, though it asked to be left alone: hosts err."""
        return not self.probe and now - self.asked_at >= _PROBE_SECONDS

    def wake(self) -> None:
        """Tell who waits that there is news."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self, now: float, seconds: float) -> None:
        """It asked to be left alone. What it says last counts, be it less than what it said before."""
        self.asked_at = now
        self.closed_until, self.probe_at = now + seconds, now + min(seconds, _MAX_CLOSED_SECONDS)
