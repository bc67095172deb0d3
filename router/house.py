"""The road of a request. Read this file first: `serve` is the whole product in one function."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from router.contract.errors import InBackground, TandemError
from router.contract.exchange import IDEMPOTENCY_KEY, Arrival, CancelReason, Company, Deadline, Exchange
from router.contract.facts import Decided, Ending, Read, Settled
from router.contract.keys import check_caller
from router.contract.request import JsonObject, RequestView
from router.contract.signals import Turn
from router.contract.sinks import AnswerSink, Copy, watch
from router.contract.words import Outcome
from router.decide.alternatives import worth_of_a_count
from router.decide.choose import choose
from router.decide.estimate import worth_waiting
from router.decide.explain import explain
from router.decide.opinions import collect
from router.dialects.requests import read_request
from router.plan import Plan, State, combine
from router.responses.acknowledged import acknowledge
from router.responses.answer import reply_to
from router.responses.local import answer_locally
from router.responses.resume import restore_history
from router.sense.signals import approaches_a_limit, count_exactly, prepare_count, read_signals
from router.sessions.turns import read_turn
from router.settle.refuse import ABANDONED, LEAVING, as_exception, cut_off, refuse, refuse_job


class House:
    """Everything that a request passes: the plan of one config, and the state that outlives it."""

    def __init__(
        self,
        plan: Plan,
        state: State,
        clock: Callable[[], float] = time.perf_counter,
        accept_job: "AcceptJob" = refuse_job,
    ) -> None:
        """`accept_job` makes a background job of a request with `background: true`. Without it, each is refused."""
        self.plan, self.state, self.clock, self._accept_job = plan, state, clock, accept_job
        self._off_loop = state.speedups.off_loop
        self.road = acknowledge(self.serve, state.shared.unconfirmed if state.shared is not None else None)
        """What the edge and jobs call: `serve` with the links before it."""

    def swap(self, plan: Plan) -> None:
        """Serve by another plan from now on. Requests under way keep theirs; memory, figures, stores and connections stay."""
        self.plan = plan

    def begin(self, arrival: Arrival, company: Company | None = None) -> Exchange:
        """Take an admitted request in. Its deadline runs from now on."""
        now, plan = self.clock(), self.plan
        return Exchange(
            arrival, now, Deadline(now + plan.deadline_seconds), self.state.observers, plan, self._off_loop, company
        )

    async def serve(self, exchange: Exchange, caller: AnswerSink) -> None:
        """Take a request from its bytes to its last fact. What observes the facts, memory and ledger first, is in `wiring`."""
        plan: Plan = exchange.plan
        arrival, running, ending = exchange.arrival, self.state.running, ABANDONED
        sink, copy = caller, None
        if plan.keeps_text:
            sink = watch(caller, copy := Copy())
        running.add(exchange)
        try:
            if arrival.passed is not None:
                ending = await plan.pass_on(exchange, arrival.passed, caller)
            elif IDEMPOTENCY_KEY in arrival.headers:
                ending = await self.state.repeats.serve(self._answer, exchange, sink)
            else:
                ending = await self._answer(exchange, sink)
        except InBackground:
            ending = await self._accept_job(self, exchange, caller)
        except TandemError as error:
            plan.dispatcher.tell_limits(error, arrival)
            ending = refuse(error, arrival, caller)
        except LEAVING:
            ending = cut_off(exchange, caller)
            raise
        except BaseException as error:  # noqa: BLE001  a panic in Rust is no Exception
            ending = Ending(Outcome.FAILED, 500)
            raise as_exception(error)  # noqa: B904  with its own cause
        finally:
            running.discard(exchange)
            exchange.note(Settled(self.clock(), ending, copy.body if copy else None))

    async def _answer(self, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Read → restore the history → answer locally, or decide → call a target → finish."""
        plan: Plan = exchange.plan
        state, arrival = self.state, exchange.arrival
        if plan.keys is not None:
            check_caller(plan.keys, arrival.caller, arrival.key)
        view = await exchange.off_loop(read_request, arrival, state.histories)
        view = await restore_history(exchange, view, state.responses, plan.targets)
        exchange.note(Read(view))
        if view.overrides.combine is not None:
            plan = exchange.plan = combine(plan, view)
        if exchange.company is not None:
            await exchange.company.join()
        turn = await self._off_loop(read_turn, view, plan.hears_lines)
        if (local := answer_locally(exchange, view, turn, plan, state, caller)) is not None:
            return await local
        decided = await self._decide(plan, view, turn, exchange)
        exchange.note(decided)
        if exchange.company is not None:
            await exchange.company.catch_up()
        reply = reply_to(exchange, view, caller)
        return reply.finish(await self._dispatch(plan, exchange, decided, reply.sink))

    async def _decide(self, plan: Plan, view: RequestView, turn: Turn, exchange: Exchange | None = None) -> Decided:
        """Session → signals → opinions → choice → foresight → what both tiers do. Without an exchange, nobody is waiting."""
        state, rules, alias = self.state, plan.rules, plan.models.resolve(view.model)
        session = await state.memory.recall(view, turn, alias)
        if session.origins:
            view = replace(view, origins=session.origins)
        live, now = state.live, self.clock()
        statuses, turn = live.statuses(plan.targets, now), session.annotate(turn)
        if plan.combiner is not None:
            turn = plan.combiner.read_plan(session, turn, view)
        signals = read_signals(view, turn, alias, statuses, state.calibration)
        signals = live.apply_limits(signals, view, now)
        if is_long := approaches_a_limit(signals):
            worth = partial(worth_of_a_count, rules, view, is_awaited=exchange is not None)
            signals = await count_exactly(view, signals, state.counter, state.calibration, worth)
        opinions = collect(rules, view, signals)
        chosen = Decided(view, session, choose(rules, view, signals, opinions), opinions)
        if live.queues.is_on:
            chosen = replace(chosen, worth_waiting_seconds=worth_waiting(chosen.decision))
        if is_long and exchange is not None:
            prepare_count(chosen.decision, state.counter)
        return plan.combiner.apply(chosen) if plan.combiner is not None else chosen

    def _dispatch(self, plan: Plan, exchange: Exchange, decided: Decided, sink: AnswerSink) -> Awaitable[Ending]:
        """Have the request served, with what its answer is to say of the decision and to carry along."""
        state, view, decision = self.state, decided.view, decided.decision
        whole = explain(decision) if view.overrides.explain_fully else None
        carried = state.memory.tokens.carry(decided.session, view, decision)
        if state.ended_jobs.by_session:
            carried = state.ended_jobs.name_in(carried, view.caller, decision.turn.session)
        send = partial(plan.open_looker().send, plan.dispatcher.send) if decision.combining else plan.dispatcher.send
        return send(exchange, decided, sink, state.live, explanation=whole, carried=carried)

    async def decide(self, arrival: Arrival, plan: Plan | None = None) -> Decided:
        """The first half of the road alone, without anyone being called or anything remembered."""
        plan = plan or self.plan
        view, turn, plan = await self._read(arrival, plan)
        return await self._decide(plan, view, turn)

    async def explain(self, arrival: Arrival, plan: Plan | None = None) -> JsonObject:
        """The decision in full, with what the request would lose on its way to each target.

        `x-tandem-session` may also be the name of a remembered session, as `tandem why` shows it.
        """
        plan = plan or self.plan
        view, turn, plan = await self._read(arrival, plan)
        named = view.overrides.session
        if named and await self.state.memory.knows(view.caller, named):
            turn = replace(turn, session=named)
        decided = await self._decide(plan, view, turn)
        losses = ((name, plan.dispatcher.find_losses(decided.view, name)) for name in decided.decision.targets)
        return {**explain(decided.decision), "drops": {name: list(lost) for name, lost in losses if lost}}

    async def _read(self, arrival: Arrival, plan: Plan) -> tuple[RequestView, Turn, Plan]:
        exchange, off_loop = self.begin(arrival), self._off_loop
        view = await restore_history(exchange, await off_loop(read_request, arrival), self.state.responses, plan.targets)
        if view.overrides.combine is not None:
            plan = combine(plan, view)
        return view, await off_loop(read_turn, view, plan.hears_lines), plan

    def move_deadlines(self, seconds: float) -> None:
        """Give all requests under way the time of a pause, in which this process could not work on them."""
        for exchange in self.state.running:
            exchange.move_deadline(seconds)

    async def stop(self, within_seconds: float) -> None:
        """Tell the callers of all requests under way that the router stops, and wait until that is done."""
        for exchange in (running := tuple(self.state.running)):
            exchange.cancel(CancelReason.STOPPING)
        if tasks := [exchange.task for exchange in running if exchange.task is not None]:
            await asyncio.wait(tasks, timeout=within_seconds)


AcceptJob = Callable[[House, Exchange, AnswerSink], Awaitable[Ending]]
"""Makes a background job of a request, and answers it with the job."""
