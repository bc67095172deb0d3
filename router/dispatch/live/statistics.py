"""Live statistics of each target: what it lately did, falling back to what is typical of it when nothing is fresh."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from router.contract.allowance import Allowance
from router.contract.errors import TandemError, TiersBusy, UpstreamBarred, UpstreamLoading, UpstreamRefused, UpstreamTimeout
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact, FirstToken, LimitsTold, QuestionEnded, Read
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
"""The refusals whose wait is about the target itself, and not about one request."""


class LiveStatistics(LiveTargets):
    """Fed by what happens to requests, read by the decision. All times come from one monotonic clock.

    It outlives a plan: a target that is configured again keeps its figures, and one that is gone is no longer listed.
    """

    def __init__(self, allowance: Allowance = ALONE) -> None:
        """`allowance` gives this router its part of the targets' quotas."""
        super().__init__()
        self._fresh_until = _NEVER
        """Until when the statuses that were last worked out will do."""
        self._targets: Mapping[str, Target] = {}
        self._listed: Mapping[str, LiveTarget] = {}
        self._statuses: Mapping[str, TargetStatus] = {}
        self._seen: dict[str, TargetStatus] = {}
        self._is_special = False
        """Whether any target ever had to rest, or another router reported anything: seldom so, and each decision would ask."""
        self._others = OtherReports()
        self.may_wait = False
        """Whether a request may wait for room: a target has a quota, or was seen to serve only a few calls at once."""
        self.closed_until = _NEVER
        """Until when a target asked to be left alone, of all the one that named the latest time: seldom any."""
        self.retries, self.limits, self.queues = RetryLimit(), RateLimits(), Queues(allowance)

    def statuses(self, targets: Mapping[str, Target], now: float) -> Mapping[str, TargetStatus]:
        """Every target as it is now (or was five milliseconds ago), in the order given."""
        if targets is not self._targets:
            self._list(targets)
        elif now < self._fresh_until:
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
            # Where every target rests, none is better for waiting: a request must have somewhere to go.
            statuses = {name: status.with_wait(0.0) for name, status in statuses.items()}
        self._statuses = self._others.apply(self._listed, statuses, now)
        return self._statuses

    def share(self, messages: Messages, clock: Callable[[], float] = time.perf_counter) -> None:
        """Exchange reports of targets with other routers from now on."""

        def look_again() -> None:
            self._is_special, self._fresh_until = True, _NEVER

        self._others = OtherReports(clock)
        self._others.exchange(messages, lambda: tuple(self._listed.values()), look_again)

    def _list(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._listed = {name: self._follow(target) for name, target in targets.items()}
        self._moving = dict(self._listed)
        self._seen = {}
        self.queues.follow(targets)
        self.may_wait = self.may_wait or self.queues.is_on

    def apply_limits(self, signals: Signals, view: RequestView, now: float) -> Signals:
        """The same signals, with what this request would wait for: a limit that a target told, or a quota of ours."""
        if self.limits.told:
            signals = self.limits.apply(signals, view, now)
        return self.queues.apply(signals, view, now) if self.queues.is_on else signals

    def chances(self, candidates: Sequence[Target], failed: str, now: float) -> Chances:
        """What a request may do whose attempt at one of these targets has failed."""
        own = self._live.get(failed)
        since = own.circuit.failing_since if own is not None else now
        known = [live for target in candidates if (live := self._live.get(target.name)) is not None]
        awaited = {live.target.name: max(len(live.queue.open), self.retries.under_way[live.target.name]) for live in known}
        standings = {live.target.name: live.circuit.standing(now, since, awaited[live.target.name]) for live in known}
        active = 1 + sum(len(live.queue.open) + len(live.waiters) for live in self._live.values())
        return Chances(self.retries.has_room(now, active), standings)

    def check_rest(self, target: Target, now: float) -> None:
        """Raise `TiersBusy` if a target has begun to rest: a request that waited for its turn meanwhile need not find out."""
        live = self.of(target)
        if live.circuit.is_resting(now):
            raise TiersBusy(live.rest_words, retry_after_seconds=live.circuit.rest_seconds)

    def check_closed(self, candidates: Sequence[Target], now: float) -> None:
        """Take the right to ask targets that asked to be left alone, where every candidate did: one request a minute has it.

        Several requests may have been decided before the first of them is sent. Raises `TiersBusy` for all but that one.
        """
        circuits = [self.of(target).circuit for target in candidates]
        if not all(circuit.closed_seconds(now) for circuit in circuits):
            return
        if not any(circuit.may_probe(now) for circuit in circuits):
            seconds = min(circuit.closed_seconds(now) for circuit in circuits)
            raise TiersBusy("every target that can serve this asked to be retried later", retry_after_seconds=seconds)
        for circuit in circuits:
            circuit.asked_at = now
        self._fresh_until = _NEVER

    def await_ready(self, target: Target) -> bool:
        """Begin to ask a target now and then whether it has loaded its model; False where that is done already."""
        was_awaited, self.of(target).is_awaited = self.of(target).is_awaited, True
        return not was_awaited

    def keep_loading(self, target: Target, words: str, now: float) -> bool:
        """Note that it is still loading its model; False where the current plan does not have it, or not as it was."""
        if is_listed := not self._targets or self._targets.get(target.name) == target:
            live = self.of(target)
            live.circuit.load(words, now)
            live.is_watched = True
            self._fresh_until = _NEVER
        return is_listed

    def end_loading(self, target: Target) -> None:
        """It is ready, or nobody asks any more: the next request may go there."""
        live = self.of(target)
        live.is_awaited, live.circuit.loading_until = False, 0.0
        live.wake()
        self._fresh_until = _NEVER

    async def await_news(self, target: Target, seconds: float) -> None:
        """Wait until a call of this target has begun to answer, or is over; at most this many seconds."""
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
        """Whether a request would wait less than this many seconds there, for a limit or a quota as well."""
        live = self.of(target)
        status = self._others.combine(live, live.status(now), now)
        signals = self.apply_limits(replace(signals, statuses={target.name: status}), view, now)
        status = signals.statuses[target.name]
        return not status.closed_seconds and status.wait_seconds < seconds

    def least_busy_first(self, names: Sequence[str]) -> list[str]:
        """Targets by how many calls they have, at all routers, and how many more wait for them here."""
        busy = {name: len(live.queue.open) + self.queues.waiting_for(name) for name in names if (live := self._live.get(name))}
        return sorted(names, key=lambda name: busy.get(name, 0) + self._others.in_flight(name))

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            QuestionEnded: self._note_question,
            AttemptOpened: self._open,
            FirstToken: self._begin,
            AttemptEnded: self._end,
            LimitsTold: self.limits.note,
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
        if self.limits.told and (decided := exchange.last(Decided)) is not None:
            self.limits.spend(exchange, fact.target, decided.decision.prompt_tokens)
        if read is not None and read.view.is_streaming:
            decided = exchange.last(Decided)
            live.queue.stream(exchange.id, read.view, decided.decision.prompt_tokens if decided else 0, fact.at)

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
        else:
            self._note_slots(live)

    def _end(self, exchange: Exchange, fact: AttemptEnded) -> None:
        live, error = self._live.get(fact.target.name) or self.of(fact.target), fact.error
        queue = live.queue
        opened_at = queue.open.pop(exchange.id, None)
        if exchange.id in queue.asked:
            self._end_stream(live, exchange.id, opened_at, fact)
        if fact.attempt.pace is not None:
            live.pace.end(exchange.id, fact)
        if error is not None or live.is_watched:
            self._judge(live, exchange, opened_at, fact)
        elif fact.attempt.error is None:
            live.circuit.served_at = fact.at

    def _end_stream(self, live: LiveTarget, name: str, opened_at: float | None, fact: AttemptEnded) -> None:
        if fact.attempt.pace is None:
            live.pace.reading.pop(name, None)
        if name not in live.queue.unanswered:
            live.queue.end(name, fact.at)
            return
        was_left = fact.attempt.error is not None and (fact.error is None or isinstance(fact.error, UpstreamTimeout))
        live.queue.leave(name, opened_at if was_left else None, fact.at)
        self._note_slots(live)

    def _note_slots(self, live: LiveTarget) -> None:
        if live.queue.slots.count:
            self.may_wait, self._fresh_until = True, _NEVER

    def _note_question(self, exchange: Exchange, fact: QuestionEnded) -> None:
        """A question that was refused or answered says as much of its target as any call; one that was late says nothing."""
        live = self._live.get(fact.target.name) or self.of(fact.target)
        if fact.error is not None or live.is_watched:
            self._judge(live, exchange, fact.opened_at, fact)

    def _judge(self, live: LiveTarget, exchange: Exchange, opened_at: float | None, fact: AttemptEnded) -> None:
        """What the end of a call says of its target. One that its caller left says nothing."""
        error, self._moving[fact.target.name] = fact.error, live
        if error is None and exchange.arrival.passed is not None:
            return  # another of its routes: that says nothing of this one
        if error is None and fact.attempt.error is None:
            self._note_served(live, exchange, opened_at, fact.at)
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
        has_news = live.window.is_told or circuit.loading_until > fact.at
        live.is_watched = bool(circuit.probe or circuit.failures or live.queue.most or has_news)
        self._fresh_until = _NEVER  # the next decision must know

    def _note_window(self, live: LiveTarget, exchange: Exchange, error: TandemError, now: float) -> None:
        window = told_window(error, exchange.last(Decided))
        if window is not None and live.window.tell(window, now):
            self._list_windows()
            events.window_learned(target=live.target.name, tokens=window, configured=live.target.window_tokens)

    def _note_served(self, live: LiveTarget, exchange: Exchange, opened_at: float | None, now: float) -> None:
        """It serves: it need not rest, and requests that wait may go there. A call from before the failures proves nothing.

        The time that it named is over only for a call that was sent to find that out.
        """
        if opened_at is not None and opened_at >= live.circuit.failing_since:
            live.circuit.serve(now)
            live.wake()
        if live.circuit.probe == exchange.id:
            live.circuit.closed_until = 0.0
        self._fresh_until = _NEVER

    def _note_failed(self, live: LiveTarget, exchange: Exchange, error: TandemError, now: float) -> None:
        seconds = error.retry_after_seconds
        if live.target.takes_callers_key and error.status == _TOO_MANY:  # one caller's limit is no other's
            if seconds:
                self.limits.close(exchange, live.target, now + seconds)
            return
        if error.status == _TOO_MANY and not seconds and _is_about_concurrency(error):
            # The calls that it has are what it takes at once. It fails for none of them.
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
    """Whether a refusal is for too many requests at once, and not for too many in a time."""
    return isinstance(error, UpstreamRefused) and _CONCURRENCY.search(error.body) is not None
