"""What is remembered of a session: where its turns went, what is warm where, and who made which hidden state.

In the process, bounded by count and age; what must survive a restart is handed to a store in small pieces. No text is kept:
fingerprints, tiers, counts and times.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from router.contract.decision import Decision
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, FirstByte, Settled, StateRefused
from router.contract.relay import Headers
from router.contract.request import RequestView
from router.contract.session import NOBODY, SessionSnapshot, SessionState, read_state
from router.contract.signals import SessionPosition, Turn
from router.contract.stores import SessionStore
from router.contract.words import PERSONS_KINDS, Outcome, Tier, TurnKind
from router.dialects.opaque import keys_of, refused_by
from router.sessions import turn_state
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.words import opening_words

_REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""
_MAX_SESSIONS = 4_096
_MAX_ALIKE = 8
_LONGEST_SECONDS = 7 * 86_400.0
_DEFAULT_CACHE_MINUTES = 5.0
_NEW = SessionState()


class SessionMemory:
    """Sessions by caller and id. The longest unused is forgotten first. Writes what it observes of requests."""

    def __init__(self, store: SessionStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._known: OrderedDict[str, SessionState] = OrderedDict()

    # Reading: changes nothing but what is at hand.

    async def recall(self, view: RequestView, turn: Turn) -> SessionSnapshot:
        """What is known of the session that a request belongs to."""
        key, state, replaces = await self._find(view, turn)
        line = view.overrides.line
        heeds_line = line is not None and line.place >= state.override_at
        if turn.kind not in _REMEMBERED and turn.kind is not TurnKind.COMPACTION:
            return SessionSnapshot(key, state, SessionPosition(), state.origins, heeds_line, replaces)
        tier = Tier(state.tier) if state.tier else None
        is_running = tier is not None and _is_running(state, turn)
        if not is_running and turn.goes_on:
            carried = turn_state.read(view.headers, view.body, key, _turn_mark(turn))
            if carried is not None:
                tier, is_running = carried, True
        position = SessionPosition(
            tier,
            is_running,
            state.has_escalated and is_running,
            self._find_warm(view, state),
            state.was_asked_for and is_running,
            state.effort,
        )
        return SessionSnapshot(key, state, position, _name_origins(view, state), heeds_line, replaces)

    def _find_warm(self, view: RequestView, state: SessionState) -> Mapping[str, int]:
        """What targets still have warm. A conversation that became shorter is another prefix: nothing of it is."""
        if len(view.conversation) < state.messages:
            return {}
        now = self._clock()
        return {target: tokens for target, (tokens, until) in state.warm.items() if until > now}

    async def _find(self, view: RequestView, turn: Turn) -> tuple[str, SessionState, SessionState | None]:
        """The session; one that a client does not name is told by its beginning, and by extending what is remembered.

        The last is another session whose slot it takes.
        """
        base = f"{view.caller.name}\0{turn.session}"
        if not turn.is_guessed:
            return base, await self._load(base) or _NEW, None
        oldest_key, oldest = base, _NEW
        for number in range(_MAX_ALIKE):
            key = f"{base}\0{number}" if number else base
            state = await self._load(key)
            if state is None or _extends(view, turn, state):
                return key, state or _NEW, None
            if oldest is _NEW or state.at < oldest.at:
                oldest_key, oldest = key, state
        return oldest_key, _NEW, oldest

    async def _load(self, key: str) -> SessionState | None:
        state = self._known.get(key)
        if state is None:
            stored = await self._store.load(_digest(key))
            state = self._known.get(key)  # another request of the session may have come by meanwhile
            if state is None and stored and (state := read_state(stored)) is not None:
                self._put(key, state)
        if state is not None and self._clock() - state.at >= _LONGEST_SECONDS:
            del self._known[key]
            return None
        return state

    # Writing: what a request came to.

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {FirstByte: self._note_answer, StateRefused: self._note_refused, Settled: self._note_end}

    def _note_answer(self, exchange: Exchange, begun: FirstByte) -> None:
        """An answer begins: from now on what is new in this session's next request is this target's own.

        Not when it ends: a client goes on at the last event, which may come before that, and what a cut answer said comes
        back too.
        """
        decided, target = exchange.last(Decided), begun.target
        if decided is None:
            return
        view, session, decision = decided
        turn, overrides, messages = decision.turn, view.overrides, len(view.conversation)
        state, now = self._current(session), self._clock()
        before = state
        if overrides.for_session or session.heeds_line:
            line = overrides.line.tier if overrides.line else None
            state = state.with_override(overrides.tier if overrides.for_session else line, messages, at=now)
        if turn.kind in _REMEMBERED:
            if not _is_aside(session, view):
                position, tier = session.position, _higher(decision.tier, target.tier)
                rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
                mark = _turn_mark(turn)
                # Another request of the same turn may have moved it up since this one looked.
                was_raised = state is not session.state and state.turn == mark and state.has_escalated
                state = state.with_turn(
                    mark,
                    Tier.DEEP if was_raised else tier,
                    has_escalated=rose or was_raised or (position.is_running and position.has_escalated),
                    was_asked_for=decision.was_asked_for or (position.is_running and position.was_asked_for),
                    effort=view.effort,
                )
            last = _last_mark(view, turn, messages) if turn.is_guessed else None
            state = state.with_answer(target.name, messages, session.origins, last, at=now)
        if state is not before:
            self._put(session.key, state)

    def _note_refused(self, exchange: Exchange, fact: StateRefused) -> None:
        """A target refused these pieces and then served without them: it does not get them again."""
        decided = exchange.last(Decided)
        if decided is None:
            return
        session = decided.session
        refused = {key: NOBODY if key in session.origins else refused_by(fact.target.name) for key in fact.keys}
        self._put(session.key, self._current(session).with_origins(refused, at=self._clock()))

    def _note_end(self, exchange: Exchange, settled: Settled) -> None:
        """A target that answered in full has the conversation warm now. The store gets the session once for each request."""
        decided = exchange.last(Decided)
        if decided is None:
            return
        ended, kind = exchange.last(AttemptEnded), decided.decision.turn.kind
        is_remembered = kind in _REMEMBERED or kind is TurnKind.COMPACTION
        session = decided.session
        if settled.ending.outcome is Outcome.SERVED and ended is not None and is_remembered:
            usage, price = ended.usage, ended.target.price
            tokens = usage.input_tokens + usage.output_tokens if usage else decided.decision.prompt_tokens
            now = self._clock()
            until = now + (price.cache_minutes if price else _DEFAULT_CACHE_MINUTES) * 60
            is_shorter = len(decided.view.conversation) < session.state.messages
            state = self._current(session).with_warm(ended.target.name, tokens, until, is_shorter=is_shorter, at=now)
            self._put(session.key, state)
        known = self._known.get(session.key)
        if known is not None and known is not session.replaces:
            self._store.save(_digest(session.key), known.at, known.write())

    def _current(self, session: SessionSnapshot) -> SessionState:
        """The session as it is now: another of its requests may have changed it since this one looked."""
        state = self._known.get(session.key)
        return session.state if state is None or state is session.replaces else state

    def _put(self, key: str, state: SessionState) -> None:
        self._known[key] = state
        self._known.move_to_end(key)
        if len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)

    async def close(self) -> None:
        """Write what is left."""
        await self._store.close()


def carried_headers(session: SessionSnapshot, view: RequestView, decision: Decision) -> Mapping[Tier, Headers]:
    """The token by which a client carries the turn's tier itself, for an answer from each tier; empty for other clients."""
    turn = decision.turn
    if turn.client != "codex" or turn.kind not in _REMEMBERED:
        return {}
    found: dict[Tier, Headers] = {}
    for served in Tier:
        tier = session.position.tier if _is_aside(session, view) else _higher(decision.tier, served)
        if tier is not None:
            found[served] = ((turn_state.TURN_STATE, turn_state.mint(session.key, _turn_mark(turn), tier)),)
    return found


def _is_running(state: SessionState, turn: Turn) -> bool:
    """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on"."""
    if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
        return state.turn == _turn_mark(turn)
    return turn.kind is TurnKind.FOLLOW_UP and state.has_escalated


def _is_aside(session: SessionSnapshot, view: RequestView) -> bool:
    """An override for one request does not move the running turn."""
    return view.overrides.tier is not None and not view.overrides.for_session and session.position.is_running


def _higher(decided: Tier, served: Tier) -> Tier:
    """Where a turn belongs: where it was decided to go, or up where somebody stood in; never down for one busy moment."""
    return Tier.DEEP if decided is Tier.DEEP or served is Tier.DEEP else Tier.FAST


@lru_cache(maxsize=1024)
def _digest(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _turn_mark(turn: Turn) -> str:
    """A turn is known by what was asked: every call of its tool loop repeats that."""
    return blake2b(_ends(turn.turn_id or turn.person_text or "").encode("utf-8", "replace"), digest_size=8).hexdigest()


def _last_mark(view: RequestView, turn: Turn, count: int) -> str:
    """What the conversation came to: its last message, and the answer before it. Only words count that a person typed."""
    client = BY_NAME.get(turn.client, UNKNOWN_CLIENT)
    parts: list[str] = []
    for index in range(max(0, count - 2), min(count, len(view.conversation))):
        message = view.conversation[index]
        words = (opening_words(message, client),) if message.role == "user" else message.texts
        parts += (message.role, *map(_ends, words))
        if message.calls or message.results:
            parts += (*(call.id for call in message.calls), *(result.call_id for result in message.results))
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _ends(text: str) -> str:
    return text if len(text) <= 512 else f"{text[:256]}{text[-256:]}{len(text)}"


def _extends(view: RequestView, turn: Turn, known: SessionState) -> bool:
    """Whether a request's history goes on from what is remembered."""
    return len(view.conversation) >= known.messages and _last_mark(view, turn, known.messages) == known.last


def _name_origins(view: RequestView, known: SessionState) -> Mapping[str, str]:
    """Who made the hidden state in a request: as remembered, or, for what is new since then, who answered last."""
    origins = known.origins
    if known.target is None or not known.messages:
        return origins
    found: dict[str, str] | None = None
    for index in range(known.messages, len(view.conversation)):
        for key in keys_of(view.dialect, view.conversation.item(index)):
            if key not in origins:
                found = found or dict(origins)
                found[key] = known.target
    return origins if found is None else found
