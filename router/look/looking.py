"""When a turn is looked at, and how its answer ends then."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from importlib import resources
from typing import Any

from msgspec.structs import replace

from router.combine import note_look
from router.contract.combine import LOOK, LookEnd, LookTell, LookTerms, LookWhen
from router.contract.exchange import CancelReason, Deadline, Exchange
from router.contract.facts import AttemptOpened, Decided, Ending, QuestionEnded, Settled
from router.contract.job import MAX_TITLE
from router.contract.request import RequestView
from router.contract.sinks import AnswerSink
from router.contract.target import TargetStatus
from router.contract.words import PERSONS_KINDS, Feature, Operation, Outcome, Tier, TurnKind
from router.dialects.fields import as_object
from router.dispatch.live.statistics import LiveStatistics
from router.limits.queues import Queues
from router.look.asking import Answered, Asker
from router.look.gather import Done, gather, write_question
from router.look.held import HeldEnd
from router.look.looks import KeepJob, Looks, key_of
from router.look.verdict import LATE, LEFT, REFUSED, SUPERSEDED, Objection, describe, read_verdict, write_block
from router.look.worth import pays
from router.loop.tasks import spawn
from router.sense.tokens import estimate_tokens
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT

_GRACE_SECONDS = 0.1
"""For what is done around the question, which has the seconds of the config."""
_SERVED = Ending(Outcome.SERVED, 200)
_NO_TARGET = LookEnd("", REFUSED)
_JSON_FORMATS = ("response_format", "text")

Send = Callable[..., Coroutine[Any, Any, Ending]]
"""`Dispatcher.send`."""


class Looker:
    """Looks over turns by the terms of one plan."""

    def __init__(
        self,
        terms: LookTerms,
        asker: Asker,
        looks: Looks,
        clock: Callable[[], float],
        *,
        running: set[Exchange],
        new_id: Callable[[], str],
        keep_job: KeepJob,
        note_objections: Callable[[Decided], None],
    ) -> None:
        """`running` are the requests that are told when the router stops. Objections are noted with a session."""
        self._terms, self._asker, self._looks, self._clock = terms, asker, looks, clock
        self._running, self._new_id, self._keep_job = running, new_id, keep_job
        self._note_objections = note_objections

    @cached_property
    def _question(self) -> str:
        return self._terms.question or (resources.files("router.look") / "question.txt").read_text(encoding="utf-8")

    def send(
        self, send: Send, exchange: Exchange, decided: Decided, sink: AnswerSink, live: LiveStatistics, **more: Any
    ) -> Coroutine[Any, Any, Ending]:
        """Have a request served by `send`, and hold back the end of its answer if that may end a turn that is looked at.

        Learns from what the person did about the objections before this turn.
        """
        if fate := decided.decision.look_before:
            self._looks.note_fate(fate)
        if not self._may_look(exchange, decided):
            return send(exchange, decided, sink, live, **more)
        held = HeldEnd(sink, decided.view.dialect, is_streaming=decided.view.is_streaming)
        return self._finish(send(exchange, decided, held, live, **more), exchange, decided, held, live.queues)

    def _may_look(self, exchange: Exchange, decided: Decided) -> bool:
        view, decision = decided.view, decided.decision
        turn = decision.turn
        if LOOK not in decision.combining or decision.tier is not Tier.FAST or turn.kind not in PERSONS_KINDS:
            return False
        if not turn.trajectory.edits and BY_NAME.get(turn.client, UNKNOWN_CLIENT).calls_tools:
            return False
        is_plain = view.operation is Operation.CREATE and exchange.arrival.job is None and not _wants_form(view)
        return is_plain and not self._looks.was_looked_at(key_of(decided))

    async def _finish(
        self, sending: Coroutine[Any, Any, Ending], exchange: Exchange, decided: Decided, held: HeldEnd, queues: Queues
    ) -> Ending:
        """Have a request served, then look at the turn before the end of its answer is sent, or after it."""
        block = None
        try:
            ending = await sending
            if ending.outcome is Outcome.SERVED and held.is_final and _was_fast(exchange):
                if self._terms.tell is LookTell.ANSWER:
                    block = await self._look_now(exchange, decided, held.text, queues)
                    if block is not None:
                        self._note_objections(decided)
                else:
                    self._look_later(exchange, decided, held.text, queues)
        finally:
            held.release(block)
        return ending

    async def _look_now(self, exchange: Exchange, decided: Decided, said: str, queues: Queues) -> str | None:
        """The block for the answer; None if it ends as it was, which a defect or a caller who left must not change."""
        noted = len(exchange.journal)
        began = self._clock()
        try:
            async with asyncio.timeout(self._terms.max_seconds + _GRACE_SECONDS):
                found = await self._look(exchange, decided, said, queues)
        except TimeoutError:
            found = _break_off(exchange, noted, LATE), ()
        except asyncio.CancelledError:
            if exchange.cancelled is None:
                raise
            end = SUPERSEDED if exchange.cancelled is CancelReason.SUPERSEDED else LEFT
            found = _break_off(exchange, noted, end), ()
        except Exception as error:  # noqa: BLE001  fast's answer is whole: a defect of the look must not fail it
            exchange.observers.report(exchange, error)
            return None
        if found is None or not self._looks.was_looked_at(key_of(decided)):
            return None  # also where it was interrupted before anything was asked
        look, objections = found
        note_look(exchange, replace(look, seconds=round(self._clock() - began, 3)), describe(look))
        return write_block(objections) if objections else None

    async def _look(
        self, exchange: Exchange, decided: Decided, said: str, queues: Queues
    ) -> tuple[LookEnd, tuple[Objection, ...]] | None:
        """None for a turn that is not looked at."""
        turn, until = decided.decision.turn, self._clock() + self._terms.max_seconds
        done = await exchange.off_loop(gather, decided.view, turn, said)
        if not done.edits or done.is_green:
            return None
        words = write_question(self._question, turn, done, said)
        deep = self._asker.choose(decided, self._terms.max_seconds)
        if not self._is_due(decided, deep, done, words) or not self._looks.begin(key_of(decided)):
            return None
        if deep is None:
            return _NO_TARGET, ()
        answered = await self._asker.ask(exchange, decided, deep.target, words, until - self._clock(), queues)
        return _judge(answered, done, words)

    def _is_due(self, decided: Decided, deep: TargetStatus | None, done: Done, words: str) -> bool:
        decision, terms = decided.decision, self._terms
        if f"{LOOK}:{LookWhen.ALWAYS}" in decision.combining:
            return True
        tokens = estimate_tokens(words.encode("utf-8", "replace"))
        is_held = terms.tell is LookTell.ANSWER
        return deep is not None and pays(
            decision, deep, len(done.edits), tokens, terms.max_seconds, self._looks.right_share, holds=is_held
        )

    def _look_later(self, exchange: Exchange, decided: Decided, said: str, queues: Queues) -> None:
        """Look in a request of its own, which has its own row. Objections are kept as a job of the caller."""
        now, arrival = self._clock(), exchange.arrival
        own = Exchange(
            replace(arrival, id=self._new_id(), raw=b""),
            now,
            Deadline(now + self._terms.max_seconds),
            exchange.observers,
            exchange.plan,
            exchange.off_loop,
        )
        # What came of a plan, or of earlier objections, is in the row of the turn.
        own.amend(replace(decided, decision=replace(decided.decision, combined=None, look_before="")))
        own.run_by(spawn(self._run_later(own, decided, said, queues), name=f"{own.id} look"))

    async def _run_later(self, exchange: Exchange, decided: Decided, said: str, queues: Queues) -> None:
        self._running.add(exchange)
        try:
            block = await self._look_now(exchange, decided, said, queues)
            if block is not None:
                self._note_objections(decided)
                turn = decided.decision.turn
                title = f"deep objects: {' '.join((turn.ask_text or '').split())}"[:MAX_TITLE]
                await self._keep_job(exchange, turn.session, title, block)
        finally:
            self._running.discard(exchange)
            exchange.let_go()
            self._settle_later(exchange)

    def _settle_later(self, exchange: Exchange) -> None:
        """Have the look's own request recorded, as one that deep served aside. Nothing is where nobody looked."""
        decided = exchange.last(Decided)
        if decided is None or decided.decision.look is None:
            return
        decision = decided.decision
        aside = replace(decision.turn, kind=TurnKind.SIDE, person_text=None)
        decision = replace(decision, tier=Tier.DEEP, turn=aside, because=decision.combined or "")
        exchange.amend(replace(decided, decision=decision))
        exchange.note(Settled(self._clock(), _SERVED))


def _wants_form(view: RequestView) -> bool:
    """Whether a program reads the answer, or several are asked for."""
    formats = (as_object(view.body.get(name)) for name in _JSON_FORMATS)
    kinds = [as_object(given.get("format")).get("type") or given.get("type") for given in formats]
    return Feature.JSON_SCHEMA in view.needs or "json_object" in kinds or view.body.get("n") not in (None, 1)


def _was_fast(exchange: Exchange) -> bool:
    opened = exchange.last(AttemptOpened)
    return opened is not None and opened.target.tier is Tier.FAST


def _judge(answered: Answered, done: Done, words: str) -> tuple[LookEnd, tuple[Objection, ...]]:
    if answered.end.end:
        return answered.end, ()
    verdict = read_verdict(answered.text, done.files, words)
    return replace(answered.end, end=verdict.end, objections=len(verdict.objections)), verdict.objections


def _break_off(exchange: Exchange, noted: int, end: str) -> LookEnd:
    """The end of a look that was interrupted, with what its question cost."""
    ended = next((fact for fact in exchange.journal[noted:] if isinstance(fact, QuestionEnded)), None)
    return LookEnd(ended.target.name, end, cost_usd=ended.attempt.cost_usd) if ended is not None else LookEnd("", end)
