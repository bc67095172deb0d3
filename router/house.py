"""The road of a request. Read this file first: `serve` is the whole product in one function."""

import asyncio
import time
from collections.abc import Callable

from msgspec.structs import replace

from router.contract.errors import TandemError
from router.contract.exchange import IDEMPOTENCY_KEY, Arrival, CancelReason, Deadline, Exchange
from router.contract.facts import AnsweredHere, Decided, Ending, Read, Settled
from router.contract.relay import KeepingSink, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.words import Operation, Outcome
from router.decide.choose import decide, needs_exact_count
from router.decide.explain import explain
from router.dialects.requests import read_request
from router.loop.tasks import HEAVY_BYTES, is_heavy, run_in_thread
from router.loop.together import let_others_catch_up
from router.plan import Plan, State
from router.responses.answer import answer_here, reply_to
from router.responses.own_answer import say_here
from router.responses.resume import complete, is_complete
from router.sense.signals import count_exactly, is_near_a_limit, read_signals
from router.sessions.in_band import apply_tier_lines
from router.sessions.turns import read_turn
from router.settle.refuse import ABANDONED, LEAVING, as_exception, cut_off, refuse


class House:
    """Everything that a request passes: the plan of one config, and the state that outlives it."""

    def __init__(self, plan: Plan, state: State, clock: Callable[[], float] = time.perf_counter) -> None:
        self.plan, self.state, self.clock = plan, state, clock

    def swap(self, plan: Plan) -> None:
        """Serve by another plan from now on. Requests under way keep theirs; memory, figures, stores and connections stay."""
        self.plan = plan

    def begin(self, arrival: Arrival) -> Exchange:
        """Take an admitted request in. Its deadline runs from now on."""
        now, plan = self.clock(), self.plan
        return Exchange(arrival, now, Deadline(now + plan.deadline_seconds), self.state.observers, plan)

    async def serve(self, exchange: Exchange, caller: Sink) -> None:
        """Take a request from its bytes to its last fact. What observes the facts, memory and ledger first, is in `wiring`."""
        plan, running, ending = exchange.plan, self.state.running, ABANDONED
        recorder = KeepingSink(caller) if plan.keeps_text else None
        running.add(exchange)
        try:
            answer = self._answer if IDEMPOTENCY_KEY not in exchange.arrival.headers else self.state.repeats.once(self._answer)
            passed = exchange.arrival.passed
            ending = await (plan.pass_on(exchange, passed, caller) if passed else answer(plan, exchange, recorder or caller))
        except TandemError as error:
            ending = refuse(error, exchange.arrival, caller)
        except LEAVING:
            ending = cut_off(exchange, caller)
            raise
        except BaseException as error:  # noqa: BLE001  a panic in Rust is no Exception
            ending = Ending(Outcome.FAILED, 500)
            raise as_exception(error)  # noqa: B904  with its own cause
        finally:
            running.discard(exchange)
            exchange.note(Settled(self.clock(), ending, recorder.body if recorder else None))

    async def _answer(self, plan: Plan, exchange: Exchange, caller: Sink) -> Ending:
        state, arrival, own, stored = self.state, exchange.arrival, exchange.arrival.responses, self.state.responses
        given = await run_in_thread(read_request, arrival) if len(arrival.raw) > HEAVY_BYTES else read_request(arrival)
        given = given if is_complete(given) else await complete(given, own or stored, plan.targets.values())
        exchange.note(Read(given))
        view = given
        if plan.applies_tier_lines:
            view = await run_in_thread(apply_tier_lines, given) if is_heavy(given) else apply_tier_lines(given)
        if (line := view.overrides.line) is not None and line.is_alone:
            exchange.note(AnsweredHere(read_turn(given)))
            return say_here(given, await state.memory.set_tier(view, plan.models.resolve(view.model)), stored, caller, own)
        if exchange.is_one_of_many:
            await state.gathering.join()
        if (own or view.operation is Operation.COUNT_TOKENS) and await answer_here(given, state, own, caller):
            exchange.note(AnsweredHere(read_turn(given)))
            return Ending(Outcome.SERVED, 200)
        decided, adviser = await self._decide(plan, view), plan.adviser
        exchange.note(decided := await adviser.consult(exchange, decided, state.live.queues) if adviser else decided)
        if exchange.is_one_of_many:
            await let_others_catch_up()
        reply, decision, asked = reply_to(exchange, given, caller), decided.decision, view.overrides
        whole = explain(decision) if asked.explain_fully else None
        carried = state.memory.tokens.carry(decided.session, view, decision)
        sink = state.memory.listen(exchange, reply.sink) if asked.for_session else reply.sink
        return reply.finish(await plan.dispatcher.send(exchange, decided, sink, state.live, explanation=whole, carried=carried))

    async def _decide(self, plan: Plan, view: RequestView) -> Decided:
        """Whose turn it is, what can be measured, which tier serves. Tokens are counted where an estimate cannot decide."""
        state, alias, live = self.state, plan.models.resolve(view.model), self.state.live
        turn = await run_in_thread(read_turn, view) if is_heavy(view) else read_turn(view)
        session = await state.memory.recall(view, turn, alias)
        view = replace(view, origins=session.origins) if session.origins else view
        statuses = live.statuses(plan.targets, self.clock())
        signals = read_signals(view, session.annotate(turn), alias, statuses, state.calibration)
        signals = live.apply_limits(signals, view, self.clock()) if live.limits.told or live.queues.is_on else signals
        if is_near_a_limit(signals) and needs_exact_count(plan.rules, view, signals):
            signals = await count_exactly(view, signals, state.counter, state.calibration)
        return Decided(view, session, decide(plan.rules, view, signals))

    async def decide(self, arrival: Arrival) -> Decided:
        """The first half of the road alone, without anyone being called or anything remembered."""
        plan = self.plan
        view = await complete(await run_in_thread(read_request, arrival), self.state.responses, plan.targets.values())
        return await self._decide(plan, await run_in_thread(apply_tier_lines, view) if plan.applies_tier_lines else view)

    async def explain(self, arrival: Arrival) -> JsonObject:
        """The decision in full, with what the request would lose on its way to each target."""
        plan, decided = self.plan, await self.decide(arrival)
        decision = decided.decision if plan.adviser is None else plan.adviser.consider(decided).decision
        losses = ((name, plan.dispatcher.find_losses(decided.view, name)) for name in decision.targets)
        return {**explain(decision), "drops": {name: list(lost) for name, lost in losses if lost}}

    async def stop(self, within_seconds: float) -> None:
        """Tell the callers of all requests under way that the router stops, and wait until that is done."""
        for exchange in (running := tuple(self.state.running)):
            exchange.cancel(CancelReason.STOPPING)
        if tasks := [exchange.task for exchange in running if exchange.task is not None]:
            await asyncio.wait(tasks, timeout=within_seconds)
