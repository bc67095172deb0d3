"""The road of a request. Read this file first: `serve` is the whole product in one function."""

import asyncio
import time
from collections.abc import Callable

from router.contract.errors import TandemError
from router.contract.exchange import Arrival, CancelReason, Deadline, Exchange
from router.contract.facts import Decided, Ending, Read, Settled
from router.contract.relay import Sink
from router.contract.request import JsonObject, RequestView
from router.contract.words import Outcome
from router.decide.choose import decide, needs_exact_count
from router.decide.explain import explain
from router.dialects.requests import read_request
from router.plan import Plan, State
from router.responses.answer import answer_here, reply_to
from router.responses.compact import ask_for_summary
from router.responses.resume import resume
from router.sense.signals import is_near_a_limit, read_signals
from router.sense.tokens import estimate_prompt
from router.sessions.in_band import heed_line
from router.sessions.memory import carried_headers
from router.sessions.turns import read_turn
from router.settle.refuse import cut_off, refuse
from router.settle.text import RecordingSink
from router.telemetry.tasks import in_step


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
        plan, ending = exchange.plan, Ending(Outcome.ABANDONED, 499)
        recorder = RecordingSink(caller) if plan.keeps_text else None
        self.state.running.add(exchange)
        try:
            ending = await self._answer(plan, exchange, recorder or caller)
        except TandemError as error:
            ending = refuse(error, exchange.arrival, caller)
        except asyncio.CancelledError:
            ending = cut_off(exchange, caller)
            raise
        except Exception:
            ending = Ending(Outcome.FAILED, 500)
            raise
        finally:
            self.state.running.discard(exchange)
            exchange.note(Settled(self.clock(), ending, recorder.body if recorder else None))

    async def _answer(self, plan: Plan, exchange: Exchange, caller: Sink) -> Ending:
        view = await self._read(plan, exchange.arrival)
        exchange.note(Read(view))
        await in_step(self.state.running)
        if await answer_here(view, self.state.counter, caller):
            return Ending(Outcome.SERVED, 200)
        decided = await self._decide(plan, view)
        exchange.note(decided)
        await in_step(self.state.running)
        reply = reply_to(exchange, view, caller)
        whole = explain(decided.decision) if view.overrides.explain_fully else None
        carried = carried_headers(decided.session, view, decided.decision)
        ending = await plan.dispatcher.send(exchange, decided, reply.sink, explanation=whole, carried=carried)
        if ending.outcome is Outcome.SERVED:
            reply.finish()
        return ending

    async def _read(self, plan: Plan, arrival: Arrival) -> RequestView:
        """Read the request: what its caller asked for by a line taken out, what it continues from put before it."""
        view = heed_line(read_request(arrival)) if plan.heeds_lines else read_request(arrival)
        return ask_for_summary(await resume(view, self.state.responses, plan.targets.values()))

    async def _decide(self, plan: Plan, view: RequestView) -> Decided:
        """Whose turn it is, what can be measured, which tier serves. Tokens are counted where an estimate cannot decide."""
        state, turn = self.state, read_turn(view)
        session = await state.memory.recall(view, turn)
        turn = turn._replace(session_override=session.override, position=session.position, heeds_line=session.heeds_line)
        if session.origins:
            view = view._replace(origins=session.origins)
        alias, statuses = plan.models.resolve(view.model), state.live.statuses(plan.targets, self.clock())
        signals = read_signals(view, turn, alias, statuses, state.calibration)
        await in_step(state.running)
        is_counted = is_near_a_limit(signals) and needs_exact_count(plan.rules, view, signals)
        if is_counted and (exact := await state.counter.count(view)) is not None:
            state.calibration.note(view.caller, turn.session, estimate_prompt(view).tokens, exact.tokens)
            signals = signals._replace(prompt=exact)
        return Decided(view, session, decide(plan.rules, view, signals))

    async def decide(self, arrival: Arrival) -> Decided:
        """The first half of the road alone, without anyone being called or anything remembered."""
        plan = self.plan
        return await self._decide(plan, await self._read(plan, arrival))

    async def explain(self, arrival: Arrival) -> JsonObject:
        """The decision in full, with what the request would lose on its way to each target."""
        plan = self.plan
        view, _, decision = await self._decide(plan, await self._read(plan, arrival))
        losses = ((name, plan.dispatcher.find_losses(view, name)) for name in decision.targets)
        return {**explain(decision), "drops": {name: list(lost) for name, lost in losses if lost}}

    async def stop(self, within_seconds: float) -> None:
        """Tell the callers of all requests under way that the router stops, and wait until that is done."""
        running = tuple(self.state.running)
        for exchange in running:
            exchange.cancel(CancelReason.STOPPING)
        if tasks := [exchange.task for exchange in running if exchange.task is not None]:
            await asyncio.wait(tasks, timeout=within_seconds)
