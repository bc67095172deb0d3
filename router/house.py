"""The road of a request. Read this file first: `serve` is the whole product in one function."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from router.contract.decision import Decision
from router.contract.entry import Dispatched, Ledger
from router.contract.errors import ResponseForgotten, TandemError, UpstreamAuth, UpstreamModel
from router.contract.relay import Headers, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.signals import Signals, TokenCount
from router.contract.target import Target
from router.contract.transcript import ResponseStore
from router.contract.words import Dialect, Operation, Outcome
from router.decide.choose import Rules, decide
from router.decide.explain import explain
from router.dialects.headers import REQUEST_ID, answer_headers
from router.dialects.requests import Arrival, read_request, rewrite
from router.dialects.transcripts import PREVIOUS, is_kept, read_previous_id, record_response, resume
from router.dispatch.attempts import Dispatcher, Errand
from router.dispatch.live import LiveStatistics
from router.dispatch.refuse import refuse
from router.dispatch.witness import HeldAnswer, Witness, answer_whole
from router.ledger.entries import write_entry
from router.sense.calibration import Calibration
from router.sense.models import ModelNames
from router.sense.signals import is_near_a_limit, read_signals
from router.sense.tokens import estimate_prompt
from router.sessions.compaction import ask_for_summary, write_compaction
from router.sessions.in_band import read_in_band
from router.sessions.memory import SessionMemory, SessionSnapshot
from router.sessions.turn_state import TURN_STATE
from router.sessions.turns import read_turn
from router.telemetry import events


class TokenCounter(Protocol):
    """Counts exactly, off the event loop, or answers None."""

    async def count(self, view: RequestView) -> TokenCount | None: ...


@dataclass(slots=True)
class Passage:
    """One request on its way: what is known of it so far."""

    arrival: Arrival
    began: float
    view: RequestView | None = None
    snapshot: SessionSnapshot | None = None
    decision: Decision | None = None
    decided: float | None = None


@dataclass(frozen=True, slots=True)
class House:
    """Everything that a request passes, built by `wiring` from one config. A new config is a new house."""

    rules: Rules
    models: ModelNames
    targets: Mapping[str, Target]
    live: LiveStatistics
    dispatcher: Dispatcher
    ledger: Ledger
    counter: TokenCounter
    memory: SessionMemory
    calibration: Calibration
    transcripts: ResponseStore
    keeps_text: bool = False
    heeds_lines: bool = True
    clock: Callable[[], float] = time.perf_counter

    async def serve(self, arrival: Arrival, sink: Sink) -> None:
        """Take an admitted request from its bytes to its ledger entry."""
        passage = Passage(arrival, self.clock())
        record = Dispatched(answer=[] if self.keeps_text else None)
        try:
            view = passage.view = await self._read(arrival)
            if view.operation is Operation.COUNT_TOKENS and view.dialect is Dialect.RESPONSES:
                await self._answer_count(view, sink, record)
                return
            snapshot, signals = await self._sense(view)
            decision = passage.decision = self._decide(view, signals)
            passage.snapshot, passage.decided = snapshot, self.clock()
            await self._answer(passage, view._replace(origins=snapshot.origins), decision, sink, record)
        except TandemError as error:
            refuse(error, arrival.dialect, arrival.id, sink, record)
        except asyncio.CancelledError as leaving:
            if leaving.args:  # only a server that stops gives its reason; a caller that hangs up has none
                record.outcome = Outcome.CUT_SHORT
            raise
        except Exception:
            record.outcome, record.status = Outcome.FAILED, 500
            raise
        finally:
            self._settle(passage, record)

    async def explain(self, arrival: Arrival) -> JsonObject:
        """Decide without asking anyone, and without remembering anything."""
        view, decision = await self.decide(arrival)
        return {**explain(decision), "drops": self._drops(view, decision.targets)}

    def _drops(self, view: RequestView, targets: Iterable[str]) -> JsonObject:
        """What a request would lose on its way to each target. Those to which it goes whole are left out."""
        return {name: list(lost) for name in targets if (lost := self.dispatcher.find_losses(view, name))}

    async def decide(self, arrival: Arrival) -> tuple[RequestView, Decision]:
        """The first half of the road alone: read, sense, decide."""
        view = await self._read(arrival)
        snapshot, signals = await self._sense(view)
        return view._replace(origins=snapshot.origins), self._decide(view, signals)

    async def _read(self, arrival: Arrival) -> RequestView:
        """Read the request. One that goes on from a response kept here is read with its whole conversation."""
        view = read_request(arrival)
        if self.heeds_lines:
            line, changes = read_in_band(view)
            if line is not None:
                view = rewrite(view, changes)._replace(overrides=replace(view.overrides, line=line))
        if view.dialect is Dialect.RESPONSES:
            previous = read_previous_id(view.body)
            if previous is not None:
                view = await self._resume(view, previous)
            if view.operation is Operation.COMPACT:
                view = ask_for_summary(view)
        return view

    async def _resume(self, view: RequestView, previous: str) -> RequestView:
        """Put the kept history before the request. An id that nobody here knows may still be known to a target."""
        transcript = await self.transcripts.find(previous, view.caller)
        if transcript is not None:
            return resume(view, transcript)
        may_know = any(Dialect.RESPONSES in target.speaks for target in self.targets.values())
        if view.operation is not Operation.CREATE or not may_know or await self.transcripts.is_denied(previous, view.caller):
            raise ResponseForgotten(
                f"Previous response with id '{previous[:80]}' not found: it may have expired, been deleted, or been made"
                " with store: false. Send the whole conversation in input",
                param=PREVIOUS,
            )
        return view

    async def _answer(self, passage: Passage, view: RequestView, decision: Decision, sink: Sink, record: Dispatched) -> None:
        """Have the request answered, and keep the response that its caller may go on from."""
        snapshot = passage.snapshot
        assert snapshot is not None

        def begun(target: Target) -> None:
            self.memory.note_answer(snapshot, view, decision.turn, decision.tier, target, was_asked_for=decision.was_asked_for)

        errand = Errand(decision, sink, self._head(passage, snapshot, view, decision), begun, record)
        if passage.arrival.operation is Operation.COMPACT:
            errand.client = held = HeldAnswer(sink)
            await self.dispatcher.send(view, errand)
            answer_whole(sink, held.headers, write_compaction(view, held.body, record.target or ""))
            return
        if is_kept(view):
            errand.client = Witness(
                sink, is_streaming=view.is_streaming, tell=lambda response: self._keep(view, record, response)
            )
        await self.dispatcher.send(view, errand)

    def _keep(self, view: RequestView, record: Dispatched, response: JsonObject) -> None:
        """Take the response down as its caller saw it. One that is nested too deeply to be written is not kept."""
        with contextlib.suppress(orjson.JSONEncodeError):
            transcript = record_response(view, record.target or "", time.time(), response)
            self.transcripts.keep(transcript, for_long=view.body.get("store") is True)

    async def _answer_count(self, view: RequestView, sink: Sink, record: Dispatched) -> None:
        """Count here: every target may be asked for the same prompt, and none need be."""
        counted = await self.counter.count(view) or estimate_prompt(view)
        body: JsonObject = {"object": "response.input_tokens", "input_tokens": counted.tokens}
        answer_whole(sink, (("content-type", "application/json"), (REQUEST_ID, view.id)), orjson.dumps(body))
        record.outcome, record.status = Outcome.SERVED, 200

    async def _sense(self, view: RequestView) -> tuple[SessionSnapshot, Signals]:
        """Whose turn it is, and what can be measured. Tokens are only counted exactly where an estimate cannot decide."""
        turn = read_turn(view)
        snapshot = self.memory.recall(view, turn)
        turn = turn._replace(tier_wish=snapshot.wish, position=snapshot.position, heeds_line=snapshot.heeds_line)
        alias, statuses = self.models.resolve(view.model), self.live.statuses(self.clock())
        signals = read_signals(view, turn, alias, statuses, self.calibration)
        if is_near_a_limit(signals) and self._needs_exact_count(view, signals):
            exact = await self.counter.count(view)
            if exact is not None:
                self.calibration.note(view.caller, turn.session, estimate_prompt(view).tokens, exact.tokens)
                signals = signals._replace(prompt=exact)
        return snapshot, signals

    def _needs_exact_count(self, view: RequestView, signals: Signals) -> bool:
        """Whether the two ends of the estimate's band decide differently: only then is an exact count worth its time."""
        try:
            low, high = (
                decide(self.rules, view, signals._replace(prompt=TokenCount(end, end, end)))
                for end in (signals.prompt.low, signals.prompt.high)
            )
        except TandemError:
            return True
        return low.tier is not high.tier or low.targets[:1] != high.targets[:1]

    def _decide(self, view: RequestView, signals: Signals) -> Decision:
        decision = decide(self.rules, view, signals)
        for skipped in decision.skipped:
            events.policy_skipped(policy=skipped.policy, reason=skipped.reason)
        return decision

    def _head(
        self, passage: Passage, snapshot: SessionSnapshot, view: RequestView, decision: Decision
    ) -> Callable[[Target, str], Headers]:
        """The headers that say who serves and why, written once it is known who does."""
        overhead_ms = ((passage.decided or passage.began) - passage.began) * 1000
        whole = explain(decision) if view.overrides.explain_fully else None

        def write(target: Target, failed: str) -> Headers:
            drops: JsonObject = {"drops": self._drops(view, (target.name,))} if whole else {}
            headers = answer_headers(view.id, decision, target, failed, overhead_ms, whole | drops if whole else None)
            carried = self.memory.mint_turn_state(snapshot, view, decision.turn, decision.tier, target.tier)
            return headers if carried is None else (*headers, (TURN_STATE, carried))

        return write

    def _remember(self, passage: Passage, record: Dispatched) -> None:
        """What the session's next request should know of this one."""
        snapshot, view, decision = passage.snapshot, passage.view, passage.decision
        if snapshot is None or view is None or decision is None:
            return
        if record.refused_state:
            self.memory.note_refused(snapshot, record.target or "", record.refused_state)
        if record.outcome is Outcome.SERVED and record.target is not None:
            usage = record.usage
            tokens = usage.input_tokens + usage.output_tokens if usage else decision.prompt_tokens
            self.memory.note_served(snapshot, view, decision.turn, record.target, tokens)
        self.memory.save(snapshot)

    def _settle(self, passage: Passage, record: Dispatched) -> None:
        """One entry for each admitted request, whatever became of it."""
        ended, arrival, decision = self.clock(), passage.arrival, passage.decision
        for attempt in record.attempts:
            if attempt.error in (UpstreamAuth.code, UpstreamModel.code):
                events.target_misconfigured(target=attempt.target, code=attempt.error)
        self._remember(passage, record)
        entry = write_entry(
            request_id=arrival.id,
            caller=arrival.caller,
            dialect=arrival.dialect,
            view=passage.view,
            decision=decision,
            record=record,
            began=passage.began,
            decided=passage.decided or ended,
            ended=ended,
            targets=self.targets,
            keeps_text=self.keeps_text,
        )
        self.ledger.record(entry)
        events.request_settled(entry)
