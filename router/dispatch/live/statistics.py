"""Live statistics of each target: recent figures, or typical ones when nothing is fresh."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from router.contract.allowance import Allowance
from router.contract.errors import (
    TandemError,
    TiersBusy,
    UpstreamBarred,
    UpstreamLoading,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.exchange import Exchange, Handler
from router.contract.facts import (
    AttemptEnded,
    AttemptOpened,
    Decided,
    Fact,
    FirstToken,
    LimitsTold,
    PlanTold,
    QuestionEnded,
    Read,
)
from router.contract.messages import Messages
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import Target, TargetStatus
from router.dispatch.live.circuit import blames_request, is_targets_failure
from router.dispatch.live.limits import RateLimits
from router.dispatch.live.reports import OtherReports
from router.dispatch.live.target import LiveTarget
from router.dispatch.live.targets import LiveTargets, told_window
from router.limits.queues import Queues
from router.limits.retries import Chances, RetryLimit
from router.limits.whole import ALONE
from router.telemetry import events

_FRESH_SECONDS = 0.005
_NEVER = float("-inf")
_TOO_MANY = 429
_CONCURRENCY = re.compile(rb"concurren|in[ -]flight|parallel requests", re.IGNORECASE)
_NAMES_A_TIME = frozenset({_TOO_MANY, 503, 529})
"""Refusals whose wait concerns the target itself, not one request."""


class LiveStatistics(LiveTargets):
    """Fed by facts, read by decisions, on one monotonic clock. Targets keep their figures across plans."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, allowance: Allowance = ALONE) -> None:
        """`allowance` is this router's part of the targets' quotas."""
        super().__init__()
        self._fresh_until = _NEVER
        self._targets: Mapping[str, Target] = {}
        self._listed: Mapping[str, LiveTarget] = {}
        self._statuses: Mapping[str, TargetStatus] = {}
        self._seen: dict[str, TargetStatus] = {}
        self._is_special = False
        """Whether a target ever rested, or another router reported anything: rare, so decisions skip the check."""
        self._clock, self._others = clock, OtherReports(clock)
        self.closed_until = _NEVER
        """The latest time until which a target asked to be left alone."""
        self.retries, self.limits, self.queues = RetryLimit(), RateLimits(), Queues(clock, allowance)

    def statuses(self, targets: Mapping[str, Target], now: float) -> Mapping[str, TargetStatus]:
        """Every target's status, at most five milliseconds old, in the order given."""
        if targets is not self._targets:
            self._list(targets)
        elif 0 < self._fresh_until - now <= _FRESH_SECONDS:
            return self._statuses
        self._fresh_until = now + _FRESH_SECONDS
        if now >= self._settle_at:
            self._settle(now)
        statuses, listed, moving = self._seen.copy(), self._listed, self._moving
        for name, live in tuple(moving.items()):
            if name in listed:
                statuses[name] = live.status(now)
                if not live.is_still:
                    continue
            del moving[name]
        self._statuses = self._seen = statuses
        return self._adjust(statuses, now) if self._is_special else statuses

    def _adjust(self, statuses: Mapping[str, TargetStatus], now: float) -> Mapping[str, TargetStatus]:
        if all(live.circuit.is_open for live in self._listed.values()):
            # If every target rests, waits do not distinguish them: a request must go somewhere.
            statuses = {name: status.with_wait(0.0) for name, status in statuses.items()}
        self._statuses = self._others.apply(self._listed, statuses, now)
        return self._statuses

    def share(self, messages: Messages) -> None:
        def look_again() -> None:
            self._is_special, self._fresh_until = True, _NEVER

        self._others = OtherReports(self._clock)
        self._others.exchange(messages, lambda: tuple(self._listed.values()), look_again)

    def _list(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._listed = {name: self._follow(target) for name, target in targets.items()}
        self._moving = dict(self._listed)
        self._seen = {}
        self.queues.follow(targets)
        self.limits.is_on = self.limits.is_on or any(target.is_plan for target in targets.values())

    def apply_limits(self, signals: Signals, view: RequestView, now: float) -> Signals:
        """Add this request's waits for told limits and for quotas."""
        if self.limits.is_on:
            signals = self.limits.apply(signals, view, now)
        return self.queues.apply(signals, view, now) if self.queues.is_on else signals

    def chances(self, candidates: Sequence[Target], failed: str, now: float) -> Chances:
        own = self._live.get(failed)
        since = own.circuit.failing_since if own is not None else now
        known = [live for target in candidates if (live := self._live.get(target.name)) is not None]
        awaited = {live.target.name: max(len(live.queue.open), self.retries.under_way[live.target.name]) for live in known}
        standings = {live.target.name: live.circuit.standing(now, since, awaited[live.target.name]) for live in known}
        active = 1 + sum(len(live.queue.open) + len(live.waiters) for live in self._live.values())
        return Chances(self.retries.has_room(now, active), standings)

    def check_rest(self, target: Target, now: float) -> None:
        """Raise `TiersBusy` if a target began to rest while the request waited for its turn."""
        live = self.of(target)
        if live.circuit.is_resting(now):
            raise TiersBusy(live.rest_words, retry_after_seconds=live.circuit.rest_seconds)

    def check_closed(self, candidates: Sequence[Target], now: float) -> None:
        """If all candidates are closed, claim the probe, one per minute. Raises `TiersBusy` for other requests."""
        circuits = [self.of(target).circuit for target in candidates]
        if not all(circuit.closed_seconds(now) for circuit in circuits):
            return
        if not any(circuit.may_probe(now) for circuit in circuits):
            seconds = min(circuit.closed_seconds(now) for circuit in circuits)
            raise TiersBusy("every target that can serve this asked to be retried later", retry_after_seconds=seconds)
        for circuit in circuits:
            circuit.asked_at = now
        self._fresh_until = _NEVER

    def rests(self, target: Target) -> bool:
        """Whether it rests because it could not be reached."""
        circuit = self.of(target).circuit
        return circuit.is_open and circuit.failed_with == UpstreamUnreachable.code

    def await_ready(self, target: Target) -> bool:
        """Mark a target as polled while it loads its model or rests; False if it already is."""
        was_awaited, self.of(target).is_awaited = self.of(target).is_awaited, True
        return not was_awaited

    def keep_loading(self, target: Target, words: str, now: float) -> bool:
        """Note that it is still loading; False if the current plan lacks it or changed it."""
        if is_listed := self._lists(target):
            live = self.of(target)
            live.circuit.load(words, now)
            live.is_watched = True
            self._fresh_until = _NEVER
        return is_listed

    def keep_resting(self, target: Target, *, is_gone: bool) -> bool:
        """Note whether a resting target answers; False once it need not be asked again."""
        if not self._lists(target) or not self.rests(target):
            return False
        if not is_gone:
            self.of(target).circuit.recover()
        return is_gone

    def _lists(self, target: Target) -> bool:
        return not self._targets or self._targets.get(target.name) == target

    def end_loading(self, target: Target) -> None:
        """It is ready, or no longer polled: the next request may go there."""
        live = self.of(target)
        live.is_awaited, live.circuit.loading_until = False, 0.0
        live.wake()
        self._fresh_until = _NEVER

    async def await_news(self, target: Target, seconds: float) -> None:
        """Wait until a call of this target begins to answer or ends, for at most this long."""
        live = self.of(target)
        news = asyncio.get_running_loop().create_future()
        live.waiters.append(news)
        live.is_watched = True
        try:
            await asyncio.wait((news,), timeout=seconds)
        finally:
            if news in live.waiters:
                live.waiters.remove(news)

    def is_sooner(self, target: Target, signals: Signals, view: RequestView, seconds: float, now: float) -> bool:
        """Whether a request would wait less than `seconds` there, limits and quotas included."""
        live = self.of(target)
        status = self._others.combine(live, live.status(now), now)
        signals = self.apply_limits(replace(signals, statuses={target.name: status}), view, now)
        status = signals.statuses[target.name]
        return not status.closed_seconds and status.wait_seconds < seconds

    def least_busy_first(self, names: Sequence[str]) -> list[str]:
        """By calls at all routers plus requests waiting here."""
        busy = {name: len(live.queue.open) + self.queues.waiting_for(name) for name in names if (live := self._live.get(name))}
        return sorted(names, key=lambda name: busy.get(name, 0) + self._others.in_flight(name))

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            QuestionEnded: self._note_question,
            AttemptOpened: self._open,
            FirstToken: self._begin,
            AttemptEnded: self._end,
            LimitsTold: self.limits.note,
            PlanTold: self.limits.plans.note,
        }

    def _open(self, exchange: Exchange, fact: AttemptOpened) -> None:
        live, read = self._live.get(fact.target.name) or self.of(fact.target), exchange.last(Read)
        live.queue.open[exchange.id] = fact.at
        self._moving[fact.target.name] = live
        if live.is_watched:
            circuit = live.circuit
            if not circuit.probe and (circuit.is_open or circuit.closed_until > fact.at):
                circuit.probe = exchange.id if exchange.arrival.passed is None else ""
                self._fresh_until = _NEVER
        if self.limits.is_on and (decided := exchange.last(Decided)) is not None:
            self.limits.spend(exchange, fact.target, decided.decision.prompt_tokens)
        if read is not None and read.view.is_streaming:
            decided = exchange.last(Decided)
            live.queue.stream(exchange.id, decided.decision.prompt_tokens if decided else 0, fact.at)

    def _begin(self, exchange: Exchange, fact: FirstToken) -> None:
        live, decided = self._live.get(fact.target.name) or self.of(fact.target), exchange.last(Decided)
        opened_at = live.queue.open.get(exchange.id)
        live.circuit.served_at = fact.at
        if live.is_watched:
            self._note_served(live, exchange, opened_at, fact.at)
        if decided is None or opened_at is None:
            return
        if live.queue.begin(exchange.id, opened_at, fact.at):
            live.pace.begin(exchange.id, decided.decision.prompt_tokens, fact.at - opened_at, fact.at)

    def _end(self, exchange: Exchange, fact: AttemptEnded) -> None:
        live, error = self._live.get(fact.target.name) or self.of(fact.target), fact.error
        queue = live.queue
        opened_at = queue.open.pop(exchange.id, None)
        if exchange.id in queue.unanswered:
            was_left = fact.attempt.error is not None and (error is None or isinstance(error, UpstreamTimeout))
            queue.leave(exchange.id, opened_at if was_left else None, fact.at)
        if fact.attempt.pace is not None:
            live.pace.end(exchange.id, fact)
        elif live.pace.reading:
            live.pace.reading.pop(exchange.id, None)
        if error is not None or live.is_watched:
            self._judge(live, exchange, opened_at, fact)
        elif fact.attempt.error is None:
            live.circuit.served_at = fact.at

    def _note_question(self, exchange: Exchange, fact: QuestionEnded) -> None:
        """A refused or answered question counts like any call; a late one does not."""
        live = self._live.get(fact.target.name) or self.of(fact.target)
        if fact.error is not None or live.is_watched:
            self._judge(live, exchange, fact.opened_at, fact)

    def _judge(self, live: LiveTarget, exchange: Exchange, opened_at: float | None, fact: AttemptEnded) -> None:
        error, self._moving[fact.target.name] = fact.error, live
        if error is None and exchange.arrival.passed is not None:
            return  # another of its routes
        if error is None and fact.attempt.error is None:
            self._note_served(live, exchange, opened_at, fact.at)
            if live.target.is_plan:
                self.limits.plans.serve(exchange, live.target, fact.at)
            if live.window.doubt(fact.usage):
                self._list_windows()
        elif isinstance(error, UpstreamLoading):
            live.circuit.load(error.words, fact.at)
        elif error is not None and is_targets_failure(error):
            self._note_failed(live, exchange, error, fact.at)
        elif error is not None and blames_request(error):
            live.circuit.answer(fact.at)
            self._note_window(live, exchange, error, fact.at)
        circuit = live.circuit
        if circuit.probe == exchange.id:
            circuit.probe = ""
        live.wake()
        has_news = live.window.is_told or circuit.loading_until > fact.at or self.limits.plans.has_trouble(live.target.name)
        live.is_watched = bool(circuit.probe or circuit.failures or live.queue.most or has_news)
        self._fresh_until = _NEVER  # the next decision must see this

    def _note_window(self, live: LiveTarget, exchange: Exchange, error: TandemError, now: float) -> None:
        window = told_window(error, exchange.last(Decided))
        if window is not None and live.window.tell(window, now):
            self._list_windows()
            events.window_learned(target=live.target.name, tokens=window, configured=live.target.window_tokens)

    def _note_served(self, live: LiveTarget, exchange: Exchange, opened_at: float | None, now: float) -> None:
        """End a rest, unless the call precedes the failures. A named time ends only with a call sent to probe it."""
        if opened_at is not None and opened_at >= live.circuit.failing_since:
            live.circuit.serve(now)
            live.wake()
        if live.circuit.probe == exchange.id:
            live.circuit.closed_until = 0.0
        self._fresh_until = _NEVER

    def _note_failed(self, live: LiveTarget, exchange: Exchange, error: TandemError, now: float) -> None:
        seconds = error.retry_after_seconds
        if live.target.is_plan and self.limits.plans.refuse(exchange, live.target, error, now):
            return
        if live.target.takes_callers_key and error.status == _TOO_MANY:  # one caller's limit
            if seconds:
                self.limits.close(exchange, live.target, now + seconds)
            return
        if error.status == _TOO_MANY and not seconds and _is_about_concurrency(error):
            # Its current calls are the maximum; none of them failed.
            live.queue.refuse(now)
            return
        has_named_time = isinstance(error, UpstreamRefused) and error.status in _NAMES_A_TIME and bool(seconds)
        circuit, fault = live.circuit, error.fault if isinstance(error, UpstreamBarred) else None
        circuit.fail(now, error.code, has_named_time=has_named_time, fault=fault)
        self._is_special = self._is_special or circuit.is_open
        if has_named_time and seconds:
            circuit.close(now, seconds)
            self.closed_until = max(self.closed_until, circuit.closed_until)


def _is_about_concurrency(error: TandemError) -> bool:
    return isinstance(error, UpstreamRefused) and _CONCURRENCY.search(error.body) is not None
