"""Session memory: where turns went, what is warm where, and which target made which hidden state.

No text is kept, only fingerprints, tiers, counts and times. `known.py` finds a request's session.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller

from router.contract.caller import Caller, SessionKey
from router.contract.clock import CLOCK
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, FirstByte, Recorded, Settled, StateRefused
from router.contract.request import Overrides, RequestView
from router.contract.session import NOBODY, SessionSnapshot, SessionState
from router.contract.signals import Alias, SessionPosition, Turn
from router.contract.stores import SessionStore
from router.contract.target import Target
from router.contract.words import Outcome, TurnKind
from router.dialects.opaque import keys_of, refused_by
from router.sessions.known import KnownSessions
from router.sessions.marks import mark_reached
from router.sessions.moves import REMEMBERED, goes_on_with, is_aside, leave_ask, move
from router.sessions.turn_state import TurnTokens
from router.sessions.wishes import AUTO, exact_name, heed, kept_name, remember

_OF_THE_CONVERSATION = (*REMEMBERED, TurnKind.COMPACTION)
"""Requests that warm the whole conversation at a target."""
_DEFAULT_CACHE_MINUTES = 5.0
_NO_POSITION, _AUTO = SessionPosition(), Alias(AUTO)
_NO_OVERRIDES = Overrides()
_SERVED = Outcome.SERVED


class SessionMemory:
    def __init__(self, store: SessionStore, clock: Callable[[], float] | None = None, tokens: TurnTokens | None = None) -> None:
        self._known, self._clock = KnownSessions(store, clock or CLOCK.trusted), clock or time.time
        self.tokens = tokens or TurnTokens()
        self._sessions, self._is_shared = self._known.sessions, store.is_shared
        self._ended: dict[SessionKey, float] = {}
        """Sessions to store, with the end of their last request."""

    async def recall(self, view: RequestView, turn: Turn, alias: Alias = _AUTO) -> SessionSnapshot:
        """The session a request belongs to, with the wish that counts."""
        now, messages = self._clock(), len(view.conversation.items)
        name = "" if alias.name == AUTO else kept_name(exact_name(alias))
        key, state, replaces = await self._known.find(view, turn, messages, now, name)
        if turn.kind not in _OF_THE_CONVERSATION:
            found = SessionSnapshot(key, state, _NO_POSITION, state.origins, messages, replaces)
            return heed(found, view, turn, alias)
        tier = state.tier
        is_running = tier is not None and goes_on_with(state, turn)
        if not is_running and turn.goes_on:
            carried = self.tokens.read(view, turn, str(key))
            if carried is not None:
                tier, is_running = carried, True
        # A conversation that became shorter is another prefix: nothing of it is warm.
        before = state.messages
        position = SessionPosition(
            tier,
            is_running,
            is_running and state.has_escalated,
            {} if messages < before else {target: tokens for target, (tokens, until) in state.warm.items() if until > now},
            is_running and state.was_asked_for,
            state.effort,
            state.ask,
            state.is_planned,
            state.combine,
        )
        origins = _name_origins(view, state) if messages > before else state.origins
        found = SessionSnapshot(key, state, position, origins, messages, replaces)
        if not name and not state.name and state.wish is None and view.overrides == _NO_OVERRIDES:
            return found  # no wish was ever made
        return heed(found, view, turn, alias)

    async def knows(self, caller: Caller, session: str) -> bool:
        return await self._sessions.load(SessionKey(caller, session)) is not None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        if self._is_shared:
            return {FirstByte: self._share_answer, StateRefused: self._note_refused, Settled: self._share_end}
        return {
            FirstByte: self._note_answer,
            StateRefused: self._note_refused,
            Settled: self._note_end,
            Recorded: self._store_ended,
        }

    def _note_answer(self, exchange: Exchange, begun: FirstByte) -> None:
        """New hidden state in the session's next request will be this target's.

        Noted at the first byte, not the end: clients continue on the last event, and a cut answer's text comes back too.
        """
        decided = exchange.last(Decided)
        if decided is None:
            return
        session, now = decided.session, self._clock()
        step = partial(_answer, decided, begun.target, now)
        self._sessions.update(session.key, step, session.state, session.replaces)

    def _share_answer(self, exchange: Exchange, begun: FirstByte) -> None:
        """Note the answer and store it now: its end waits until other routers can see it.

        A whole answer begins and ends at once, and waits until both are stored together.
        """
        self._note_answer(exchange, begun)
        decided = exchange.last(Decided)
        if decided is not None and decided.view.is_streaming:
            _confirm(exchange, self._sessions.store(decided.session.key, self._clock()))

    def _note_refused(self, exchange: Exchange, fact: StateRefused) -> None:
        """A target refused these pieces and served without them: do not send them again."""
        decided = exchange.last(Decided)
        if decided is None:
            return
        session, now = decided.session, self._clock()
        refused = {key: NOBODY if key in session.origins else refused_by(fact.target.name) for key in fact.keys}
        step = methodcaller("with_origins", refused, at=now)
        self._sessions.update(session.key, step, session.state, session.replaces)

    def _note_end(self, exchange: Exchange, settled: Settled) -> None:
        """A full answer leaves the conversation warm at its target."""
        decided, ended = exchange.last(Decided), exchange.last(AttemptEnded)
        if decided is None:
            return
        session, now = decided.session, self._clock()
        if settled.ending.outcome is _SERVED and ended is not None and decided.decision.turn.kind in _OF_THE_CONVERSATION:
            usage, target = ended.usage, ended.target
            price = target.price
            tokens = usage.input_tokens + usage.output_tokens if usage else decided.decision.prompt_tokens
            until = now + (price.cache_minutes if price else _DEFAULT_CACHE_MINUTES) * 60
            is_shorter = session.messages < session.state.messages
            step = methodcaller("with_warm", target.name, tokens, until, is_shorter=is_shorter, at=now)
            self._sessions.update(session.key, step, session.state, session.replaces)
        self._ended[session.key] = now

    def _store_ended(self, *_: object) -> None:
        """Store each session once for all its requests that are recorded together."""
        if self._ended:
            ended, self._ended = self._ended, {}
            for key, at in ended.items():
                self._sessions.store(key, at)

    def _share_end(self, exchange: Exchange, settled: Settled) -> None:
        self._note_end(exchange, settled)
        decided = exchange.last(Decided)
        if decided is not None:
            written = self._sessions.store(decided.session.key, self._ended.pop(decided.session.key))
            if not decided.view.is_streaming:
                _confirm(exchange, written)

    def note_objections(self, decided: Decided) -> None:
        """The answer to this request ends with deep's objections, which the next turn may point back at."""
        session = decided.session
        step = methodcaller("with_objections", session.messages)
        self._sessions.update(session.key, step, session.state, session.replaces)

    async def close(self) -> None:
        self._store_ended()
        await self._known.close()


def _confirm(exchange: Exchange | None, written: "asyncio.Future[None] | None") -> None:
    if written is not None and exchange is not None and exchange.confirming is not None:
        exchange.confirming.wait_for("sessions", written)


def _answer(decided: Decided, target: Target, now: float, state: SessionState) -> SessionState:
    view, session, decision = decided.view, decided.session, decided.decision
    turn = decision.turn
    if session.name != state.name or state.wish is not None or view.overrides.for_session:
        state = remember(state, session, view, turn, now)
    if turn.kind in REMEMBERED:
        if view.overrides.tier is None or not is_aside(session, view):
            state = move(state, session, decision, target.tier, view.effort)
        last = mark_reached(view, turn, session) if turn.is_guessed else None
        return state.with_answer(target.name, session.messages, session.origins, last, at=now)
    return leave_ask(state, turn) if turn.kind is TurnKind.COMPACTION else state


def _name_origins(view: RequestView, known: SessionState) -> Mapping[str, str]:
    """The remembered makers; for new state, the last target to answer."""
    origins = known.origins
    if known.target is None or not known.messages:
        return origins
    found: dict[str, str] | None = None
    for key in keys_of(view, known.messages):
        if key not in origins:
            found = found or dict(origins)
            found[key] = known.target
    return origins if found is None else found
