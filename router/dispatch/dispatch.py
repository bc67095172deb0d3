"""Sends a request to the targets of its decision: `rules` chooses, `attempt` tries."""

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.entry import Attempt
from router.contract.errors import BadRequest, BudgetSpent, CallerKey, TandemError, TiersBusy, UpstreamLoading, UpstreamRefused
from router.contract.exchange import Exchange, Passed, saying_why
from router.contract.facts import AttemptEnded, Decided, Dequeued, Ending, StateRefused
from router.contract.opinions import BUDGET
from router.contract.relay import Adapter, Dialing, Headers, RouteRequest, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.sinks import AnswerSink, Collected
from router.contract.target import Target
from router.contract.words import Operation, Tier
from router.dialects.opaque import keys_for, refused_by
from router.dispatch.attempt import attempt
from router.dispatch.context import DispatchContext
from router.dispatch.health import watch_health
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable, may_ask_usage, prepare
from router.dispatch.passing import collect_route, pass_on
from router.dispatch.rules import (
    Form,
    GiveUp,
    Tried,
    Try,
    Wait,
    candidates_of,
    failed_in_words,
    last_failure,
    next_step,
    refuses_asking,
)
from router.dispatch.waiting import WaitingSink, await_turn
from router.limits.callers import NO_LIMITS, CallerLimits, Holding


class Dispatcher:
    """Opens calls and relays answers. Knows targets by name; decides nothing."""

    def __init__(
        self,
        reachable: Mapping[str, Reachable],
        *,
        max_response_bytes: int,
        clock: Callable[[], float],
        limits: CallerLimits = NO_LIMITS,
    ) -> None:
        self._reachable, self._max_response_bytes, self._clock, self._limits = reachable, max_response_bytes, clock, limits
        self._ahead, self.tell_limits = Preconnector(reachable), limits.tell

    @property
    def adapters(self) -> list[Adapter]:
        return [entry.adapter for entry in self._reachable.values()]

    def connect_ahead(self) -> None:
        """Open connections early: a caller is about to send a request."""
        self._ahead.connect()

    def send(
        self,
        exchange: Exchange,
        decided: Decided,
        sink: AnswerSink,
        live: LiveStatistics,
        *,
        explanation: JsonObject | None = None,
        carried: Mapping[Tier, Headers] = {},
    ) -> Coroutine[Any, Any, Ending]:
        """Try targets until one serves. Raises the error for the caller if none did and nothing was sent."""
        if exchange.began >= self._ahead.due:
            self._ahead.look(decided, exchange.began)
        decision = decided.decision
        if decision.alike > 1:
            # By current load: several requests may be decided at one moment.
            alike, others = decision.targets[: decision.alike], decision.targets[decision.alike :]
            decision = replace(decision, targets=(*live.least_busy_first(alike), *others))
        context = DispatchContext(
            exchange, decided, decision, sink, self._max_response_bytes, self._clock, live, explanation, carried
        )
        if self._limits.is_on and (holding := self._limits.open(exchange, decided)) is not None:
            return self._try_within(holding, replace(context, holding=holding))
        return self._try_in_queues(context) if live.queues.is_on else self._try_targets(context)

    async def _try_within(self, holding: Holding, context: DispatchContext) -> Ending:
        """For a caller with limits: usage is counted however the attempts end, and a refusal tells what is left."""
        try:
            return await (self._try_in_queues(context) if context.live.queues.is_on else self._try_targets(context))
        except TandemError as error:
            error.told = holding.told
            raise
        finally:
            holding.settle()

    async def _try_in_queues(self, context: DispatchContext) -> Ending:
        """For targets with quotas. Once a wait has sent the head, a failure is an event of the stream."""
        waiting = WaitingSink(context.sink, context.exchange, context.decision, context.decided.view, context.holding)
        try:
            return await self._try_targets(replace(context, sink=waiting), waiting)
        except TandemError as error:
            if waiting.has_head:
                return waiting.break_off(error)
            raise
        finally:
            waiting.close()

    async def _try_targets(self, context: DispatchContext, waiting: WaitingSink | None = None) -> Ending:
        live, view, decision = context.live, context.decided.view, context.decision
        tried: list[Tried] = []
        step = Try((decision.targets or decision.spill)[0])
        while True:
            reachable = self._reachable[step.target]
            if live.windows and step.target in live.windows:
                reachable = dataclasses.replace(reachable, target=live.known(reachable.target))
            if context.holding is not None:
                context, reachable = await _admit(context, context.holding, reachable, tried)
            if live.closed_until > context.exchange.began and not tried:
                live.check_closed([self._reachable[name].target for name in candidates_of(decision)], self._clock())
            sent, failed = view, ""
            left_out: tuple[str, ...] = ()
            if tried or view.continued is not None:
                view, sent, left_out = _shape(view, reachable.target, step)
                failed = failed_in_words(tried, step.target)
                if tried and tried[-1].refused_usage:
                    reachable = reachable.without_asking()
            try:
                ended = await (
                    self._in_turn(context, waiting, sent, reachable, failed, is_paid=step.is_paid)
                    if reachable.target.quota is not None
                    else _paid(context, sent, reachable, failed)
                    if step.is_paid
                    else attempt(context, sent, reachable, failed)
                )
            except BadRequest as misfit:  # another target may take it unchanged
                tried.append(self._note_misfit(context.exchange, reachable.target, step, misfit))
            except TiersBusy as busy:
                row = Attempt(reachable.target.name, None, busy.code, 0.0)
                tried.append(Tried(reachable.target, row, busy.without_frames(), step.form))
            else:
                if left_out and ended.error is None:  # success shows that these were refused
                    context.exchange.note(StateRefused(reachable.target, left_out))
                if isinstance(ended, Ending):
                    return ended
                asked = self._reachable[step.target]
                tried.append(_remember(view, sent, live.known(asked.target), step, ended, tried))
                if isinstance(ended.error, UpstreamLoading) or (asked.health_path and live.rests(asked.target)):
                    watch_health(asked, live, self._clock)
            following = await self._choose_next(context, tried)
            if isinstance(following, GiveUp):
                raise _name_uncovered(following.error, decision)
            step = following

    async def _in_turn(
        self,
        context: DispatchContext,
        waiting: WaitingSink | None,
        view: RequestView,
        reachable: Reachable,
        failed: str,
        *,
        is_paid: bool,
    ) -> Ending | AttemptEnded:
        """Attempt a target with a quota once it has room. Raises `TiersBusy` if that takes too long."""
        exchange, live, target = context.exchange, context.live, reachable.target
        if view.operation is Operation.COUNT_TOKENS:  # not counted against rate limits
            return await attempt(context, view, reachable, failed)
        waited, noted = exchange.last(Dequeued), len(exchange.journal)
        permit = await await_turn(context, view, target, live.queues.queue_of(target, view), waiting)
        try:
            if exchange.last(Dequeued) is not waited and candidates_of(context.decision)[-1] != target.name:
                live.check_rest(target, self._clock())
            if is_paid:
                return await _paid(context, view, reachable, failed)
            return await attempt(context, view, reachable, failed)
        except (BadRequest, TiersBusy):  # never sent
            permit.release(self._clock())
            raise
        finally:
            permit.settle(exchange.journal[noted:], self._clock())

    async def _choose_next(self, context: DispatchContext, tried: Sequence[Tried]) -> Try | GiveUp:
        live, deadline = context.live, context.exchange.deadline
        candidates = [live.known(self._reachable[name].target) for name in candidates_of(context.decision)]
        failed = last_failure(tried) or tried[-1]
        while True:
            now = self._clock()
            step = next_step(candidates, tried, now, deadline, live.chances(candidates, failed.target.name, now))
            if not isinstance(step, Wait):
                return step
            with saying_why(context.exchange):
                await live.await_news(self._reachable[step.target].target, deadline.left(now))

    def _note_misfit(self, exchange: Exchange, target: Target, step: Try, misfit: BadRequest) -> Tried:
        row = Attempt(target.name, None, misfit.code, 0.0, cost_usd=0.0)
        exchange.note(AttemptEnded(self._clock(), target, row, misfit.without_frames(), None, None))
        return Tried(target, row, misfit, step.form)

    async def pass_on(self, exchange: Exchange, passed: Passed, target: str, sink: Sink) -> Ending:
        """Relay a request of an undecided route, unread, to this target alone."""
        reachable, holding = self._reachable[target], self._limits.open_passed(exchange, passed.route)
        try:
            told = await holding.admit(reachable.target)
            return await pass_on(exchange, passed, reachable, sink, self._clock, told)
        finally:
            holding.settle()

    def collect_route(self, target: str, request: RouteRequest, max_bytes: int) -> Coroutine[Any, Any, Collected]:
        return collect_route(self._reachable[target], request, max_bytes)

    def find_losses(self, view: RequestView, target: str) -> tuple[str, ...]:
        """What the request would lose at a target, or why it cannot go there."""
        reachable = self._reachable[target]
        try:
            return prepare(_view_for(view, reachable.target), reachable, 0).dropped
        except BadRequest as error:
            return (f"cannot be served: {error.message}",)


async def _admit(
    context: DispatchContext, holding: Holding, reachable: Reachable, tried: Sequence[Tried]
) -> tuple[DispatchContext, Reachable]:
    """Take what an attempt needs of its caller's limits, and cap its answer by what was left of a budget."""
    try:
        told = await holding.admit(reachable.target)
    except BudgetSpent as error:
        if failed := failed_in_words(tried, reachable.target.name):
            raise error.reworded(f"{failed}, and {error.message}") from error
        raise
    if told:
        context = replace(context, carried={tier: (*context.carried.get(tier, ()), *told) for tier in Tier})
    return context, reachable if holding.cap is None else reachable.capped(holding.cap)


def _name_uncovered(error: TandemError, decision: Decision) -> TandemError:
    """Add to a failure which targets were left out for want of money: other callers would have been served there."""
    out = [
        f"{opinion.target} is not tried: {opinion.because}"
        for policy, opinion in decision.opinions.ruled_out
        if policy == BUDGET
    ]
    return error.reworded("; ".join([error.message, *out])) if out and error.is_retryable else error


async def _paid(context: DispatchContext, view: RequestView, reachable: Reachable, failed: str) -> Ending | AttemptEnded:
    """A second attempt. It counts for a while if it failed; not if it served or its caller left."""
    retry, noted = await context.live.retries.hold(reachable.target.name), len(context.exchange.journal)
    try:
        ended = await attempt(context, view, reachable, failed)
        if isinstance(ended, AttemptEnded) and not _is_callers_own(ended.error):
            retry.settle(context.exchange.journal[noted:], context.clock())
        return ended
    finally:
        retry.release(context.clock())


def _is_callers_own(error: TandemError | None) -> bool:
    """Whether the request or its caller's key is at fault: the target answers, so the budget is spared."""
    return isinstance(error, CallerKey) or (isinstance(error, UpstreamRefused) and error.blames_the_request)


def _view_for(view: RequestView, target: Target) -> RequestView:
    return view if view.continued is None else view.continued.view_for(view, target)


def _shape(view: RequestView, target: Target, step: Try) -> tuple[RequestView, RequestView, tuple[str, ...]]:
    if step.form is Form.WITHOUT_REFERENCE and view.continued is not None:
        view = replace(view, continued=view.continued.without_reference())
    if step.form is not Form.WITHOUT_STATE:
        return view, _view_for(view, target), ()
    keys = keys_for(_view_for(view, target), target.name)
    stripped = replace(view, origins={**view.origins, **dict.fromkeys(keys, refused_by(target.name))})
    return view, _view_for(stripped, target), keys


def _remember(
    view: RequestView, sent: RequestView, target: Target, step: Try, ended: AttemptEnded, before: Sequence[Tried]
) -> Tried:
    assert ended.error is not None
    # Another request may have learned this meanwhile: check whether this one was tried without the question.
    has_refused = any(past.refused_usage and past.target.name == target.name for past in before)
    refused_usage = refuses_asking(ended.error) and may_ask_usage(sent, target) and not has_refused
    sent_reference = view.continued is not None and view.continued.stored_by == target.name
    has_state = isinstance(ended.error, UpstreamRefused) and bool(keys_for(sent, target.name))
    return Tried(target, ended.attempt, ended.error, step.form, sent_reference, has_state, refused_usage)


_LOOK_SECONDS = 1.0
"""At most one request per interval is examined: an idle connection lasts most of a minute."""
_MAX_TARGETS = 8


class Preconnector:
    """Dials targets in the background, ignoring failures. Adapters without connections are left out."""

    def __init__(self, reachable: Mapping[str, Reachable]) -> None:
        self._reachable = reachable
        self.due = float("-inf")
        """When to examine the next request; compared inline so that most requests pay no call."""

    def look(self, decided: Decided, now: float) -> None:
        """Prepare connections that the session of this request may need next."""
        self.due = now + _LOOK_SECONDS
        decision = decided.decision
        if decided.session.state.target is None:
            self.connect(but=(decision.targets or decision.spill)[0])
        elif decision.rival:
            self._connect(decision.rival)

    def connect(self, but: str = "") -> None:
        """Connect to the first few targets of both tiers, except the one being called."""
        for name in list(self._reachable)[:_MAX_TARGETS]:
            if name != but:
                self._connect(name)

    def _connect(self, name: str) -> None:
        reachable = self._reachable[name]
        if isinstance(reachable.adapter, Dialing):
            reachable.adapter.connect_ahead(reachable.target)
