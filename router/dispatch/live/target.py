"""One target as it is now: its pace, its queue, whether it rests or asked to be left alone. No clock: times are given."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from router.contract.request import RequestView
from router.contract.target import NOTHING_LEARNED, Speed, Target, TargetStatus, WorkRatio
from router.contract.words import AccountFault
from router.dialects.table import SPECS
from router.dispatch.live.circuit import Circuit
from router.dispatch.live.lateness import Lateness, is_late
from router.dispatch.live.past import LONG_PROMPT_TOKENS, PastPace
from router.dispatch.live.samples import FADED_SECONDS, Samples
from router.dispatch.live.slots import Slots
from router.limits.quota import seconds_left, wait_for_slot

_MAX_CLOSED_SECONDS = 900.0
"""However long a target asks to be left alone, one request goes there after this: quotas are raised, and hosts err."""
_PROBE_SECONDS = 60.0
"""How often a request goes to targets that asked to be left alone, where there is no other that could serve it."""
RESTED_WAIT_SECONDS = 60.0
"""How long a request is expected to wait at a target that rests: long enough that another is taken wherever there is one."""
_WINDOW_KNOWN_SECONDS = 60.0
"""How long it is believed without asking that a target's window is as small as it said, where nothing else can serve."""
LOADING_KNOWN_SECONDS = 5.0
"""How long it is believed without asking that a target is still loading its model."""
_MAX_KNOWN_SECONDS = 60.0
"""How long it is believed that a target takes no more requests at once than it had when it refused one."""
_GUESSED_ANSWER_TOKENS = 400
"""How long answers are taken to be before one was seen."""


class LiveTarget:
    def __init__(self, target: Target) -> None:
        self.target = self.known = target
        """As it is configured, and the same with the window that it named itself, until it is configured otherwise."""
        self.window_told_at = 0.0
        self.loading, self.loading_until = "", 0.0
        """What it said when it was loading its model, and how long that is believed without asking again."""
        self.is_awaited = False
        """Whether somebody asks it now and then whether it is ready."""
        self.ttft = Samples(target.typical.ttft_seconds)
        self.speed = Samples(target.typical.tokens_per_second)
        self.prefill = Samples(target.typical.prefill_tokens_per_second)
        self.is_counted = True
        """Whether its speed comes from counted pieces alone: it has not said yet how many tokens it wrote."""
        self.has_recalled = False
        self.reading: dict[str, float] = {}
        """How long each long prompt under way took to its first token. How much of it was read is known at its end."""
        self.lateness, self.slots = Lateness(), Slots()
        self.open: dict[str, float] = {}
        self.unanswered: dict[str, float] = {}
        """When each stream under way that has no token yet was to have its first one."""
        self.asked: dict[str, RequestView] = {}
        self.has_samples = False
        self.fades_until = 0.0
        """Until when the last figure that was seen of it fades into what is usual."""
        self.is_still = False
        """Whether its status stays as it last was until somebody calls it: nothing is under way, and nothing of it fades."""
        self.closed_until = self.probe_at = 0.0
        self.asked_at = 0.0
        """When it last refused with a time, or when a request last went there to find out whether that time was right."""
        self.probe = ""
        """The request that finds out whether it is open again before the time that it named."""
        self.ratio = WorkRatio()
        self.failures = NOTHING_LEARNED
        self.circuit = Circuit()
        self.failed_with = ""
        self.fault: AccountFault | None = None
        """The code of its last failure, and what only the operator can correct, if it was that."""
        self.waiters: list[asyncio.Future[None]] = []
        """Requests that move here as soon as it is known to serve."""
        self.max_at_once, self.max_known_at = 0, 0.0
        """How many requests it takes at once, as a refusal showed, and when."""
        self.is_watched = False
        """Whether it fails, is being probed or waited for, or named its window: then an answer means more than its speed."""

    def add(self, samples: Samples, value: float, now: float) -> None:
        samples.add(value, now)
        self.has_samples, self.fades_until = True, now + FADED_SECONDS

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
            self.lateness, self.slots, self.max_at_once = Lateness(), Slots(), 0
        if self.known is self.target or target != self.target:
            self.known = target
        self.target = target

    def status(self, now: float) -> TargetStatus:
        speed = self.target.typical
        if self.has_samples:
            speed = Speed(self.ttft.current(now), self.speed.current(now), self.prefill.current(now))
        status = TargetStatus(self.known, speed, 0.0, len(self.open), self.ratio, failures=self.failures)
        self.is_still = not self.open and self.fades_until <= now
        if self.closed_until > now:
            self.is_still = False
            status = structs.replace(status, closed_seconds=self.closed_seconds(now), may_probe=self.may_probe(now))
        if self.unanswered or self.lateness.seconds or self.slots.count:
            self.is_still = False
            status = self._queued(status, now)
        if self.is_watched:
            self.is_still = False
            status = self._at_rest(self._with_window(status, now), now)
        return status

    def _with_window(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with the configured window, where it is time to find out whether what the target said of it still holds."""
        if self.known is self.target or now - self.window_told_at < _WINDOW_KNOWN_SECONDS:
            return status
        return structs.replace(status, window_to_try=self.target.window_tokens)

    def _queued(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with its queue. Where the number of slots is known, the calls under way tell how long it is.

        Else late calls do. Where all calls have been late for long, that is how the target is: each further call of a turn
        would wait as well, unless requests move on after their longest wait.
        """
        count, lateness = self.slots.count, self.lateness
        if self.has_slots(now) and count <= len(self.open):
            return status.with_wait(self._wait_for_slot(len(self.unanswered), count, now))
        wait = self._wait_by_lateness(now)
        if self.target.max_wait_seconds is None and lateness.is_standing(now):
            return structs.replace(status, speed=status.speed._replace(ttft_seconds=status.speed.ttft_seconds + wait))
        return status.with_wait(wait)

    def has_slots(self, now: float) -> bool:
        """Whether it is known how many calls it serves at once. What is old is doubted until a call waits again."""
        return self.slots.is_sure(now) or (self.slots.count > 0 and bool(self.unanswered))

    def _wait_by_lateness(self, now: float) -> float:
        """A request that waits for its first token shows a queue before any answer can, and so do the others that wait."""
        if not self.unanswered:
            return self.lateness.expect(now)
        name, due = next(iter(self.unanswered.items()))
        usual = due - self.open.get(name, due)
        wait = self.lateness.expect_behind(now - due, usual, now)
        if is_late(now - due, usual) and (count := self._seeming_slots(name, now)):
            return max(wait, self._wait_for_slot(len(self.unanswered), count, now))
        return wait

    def _seeming_slots(self, name: str, now: float) -> int:
        """How many calls fit while this one waits, as it looks: those that do not wait. 0 where it waits for another reason."""
        running, opened_at = len(self.open) - len(self.unanswered), self.open.get(name, now)
        if running < self.slots.at_least(now):
            return 0
        return running if self.slots.keeps_waiting(opened_at, self.unanswered[name] - opened_at, now) else 0

    def _wait_for_slot(self, waiting: int, count: int, now: float) -> float:
        """How long a call waits with this many others ahead of it, in addition to those that are being served."""
        usual, begun, speed = self.answer_seconds, self.slots.begun, self.speed.usual
        left = []
        for name, opened_at in self.open.items():
            if name not in self.unanswered:
                own = min(usual, limit / speed) if (limit := _limit_of(self.asked.get(name))) else usual
                left.append(seconds_left(now - begun.get(name, opened_at), own))
        return wait_for_slot(left, waiting, count, usual)

    @property
    def answer_seconds(self) -> float:
        """How long a call usually holds its slot."""
        return self.ttft.usual + (self.slots.seconds or _GUESSED_ANSWER_TOKENS / self.speed.usual)

    def wait_left(self, name: str, now: float) -> float:
        """How much longer a call that has no token yet waits for the calls before it; 0 where it does not seem to wait."""
        if name not in self.unanswered:
            return 0.0
        count = self.slots.count or self._seeming_slots(name, now)
        if not count or count > len(self.open) - len(self.unanswered):
            return 0.0
        return self._wait_for_slot(list(self.unanswered).index(name), count, now)

    def may_lack_slot(self, now: float) -> bool:
        """Whether a call that was just opened may have to wait for others: more are under way than were seen at once."""
        return (count := len(self.open)) > 1 and count > self.slots.at_least(now)

    def wait_for_slot(self, now: float) -> float:
        """How long a call would wait that is opened now, where it is known how many calls it serves at once."""
        return self.status(now).wait_seconds if self.has_slots(now) else 0.0

    def has_last_slot(self, now: float) -> bool:
        return self.has_slots(now) and len(self.open) >= self.slots.count - 1

    @property
    def serves_at_once(self) -> int | None:
        """How many calls it serves at once, by the config or as learned; None where that is not known."""
        return self.slots.count or self.target.in_flight

    def usual_seconds(self, prompt_tokens: int) -> float:
        """How long a prompt usually waits for its first token. How a short one is read is part of what is usual."""
        reading = prompt_tokens / self.prefill.usual if prompt_tokens >= LONG_PROMPT_TOKENS else 0.0
        return self.ttft.usual + reading

    def begin(self, name: str, opened_at: float, now: float) -> bool:
        """The first token of a call is here: whether it was prompt, or the call waited in a queue."""
        due = self.unanswered.pop(name, now)
        usual = due - opened_at
        if is_late(now - due, usual):
            self.slots.begin(name, now, usual, now)
            if not self._waited_for_slot(self.slots.begin_late(opened_at, usual, now), now):
                self.lateness.begin_late(now - due, opened_at, now)
            return False
        self.slots.begin(name, opened_at, usual, now)
        self.lateness.begin_promptly(opened_at)
        # A call that was sent before this one, and has nothing yet, is slow for a reason of its own.
        while self.unanswered and self.open.get(other := next(iter(self.unanswered)), opened_at) < opened_at:
            del self.unanswered[other]
        return True

    def leave(self, name: str, opened_at: float | None, now: float) -> None:
        """A call ended before its first token. When it was opened counts only if nobody wanted to wait for it any longer."""
        due = self.unanswered.pop(name)
        del self.asked[name]
        if opened_at is None or not is_late(now - due, due - opened_at):
            return
        if not self._waited_for_slot(self.slots.leave_late(opened_at, due - opened_at, now), now):
            self.lateness.leave(now - due, opened_at, now)

    def end(self, name: str, now: float) -> None:
        """A stream is over that had begun, or whose first token nobody waited for."""
        del self.asked[name]
        if name in self.slots.begun:
            self.slots.end(name, now)

    def _waited_for_slot(self, is_known: bool, now: float) -> bool:
        """Whether a call was late for want of a slot: the calls under way tell that wait, and it leaves no queue."""
        if is_known:
            self.lateness.begin_promptly(now)
        return is_known

    def _at_rest(self, status: TargetStatus, now: float) -> TargetStatus:
        """The same with a long wait if it rests, if one request is finding out about it, or if it has all that it takes."""
        if self.loading_until > now:
            status = structs.replace(status, closed_seconds=self.loading_until - now, loading=self.loading)
        if self.max_at_once and now - self.max_known_at > _MAX_KNOWN_SECONDS:
            self.max_at_once = 0
        if 0 < self.max_at_once <= len(self.open):
            because = f"{self.target.name} already has the {self.max_at_once} requests that it takes at once"
            return status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), because, is_resting=True)
        if not self.is_resting(now):
            return status
        return status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), self.rest_words, is_resting=True)

    def is_resting(self, now: float) -> bool:
        """Whether it is to be left alone after failures, or one request is finding out about it."""
        return self.circuit.is_open and (now < self.circuit.rested_until or bool(self.probe))

    @property
    def rest_words(self) -> str:
        failures = self.circuit.failures
        return f"{self.target.name} rests after {f'{failures} failures in a row' if failures > 1 else 'a failure'}"

    def load(self, words: str, now: float) -> None:
        """It says that it is loading its model: so it is alive, and earlier failures are over."""
        self.loading, self.loading_until = words, now + LOADING_KNOWN_SECONDS
        self.circuit.serve(now)
        self.is_watched = True

    def tell_window(self, tokens: int, now: float) -> bool:
        """It named its window: whether that is news. Only one that is smaller than the configured counts."""
        self.window_told_at = now
        before, tokens = self.known.window_tokens, min(tokens, self.target.window_tokens)
        if tokens != before:
            is_configured = tokens == self.target.window_tokens
            self.known = self.target if is_configured else replace(self.target, window_tokens=tokens)
        return tokens != before

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


def _limit_of(view: RequestView | None) -> int:
    """How many tokens a request lets its answer have at most; 0 where it sets no limit."""
    return SPECS[view.dialect].read_limit(view.body) or 0 if view is not None else 0
