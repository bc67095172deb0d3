"""What is remembered of a session: where its turns went, what is warm where, and who made which hidden state.

In the process, bounded by count and age; what must survive a restart is handed to a store in small pieces. No text is kept:
fingerprints, tiers, counts and times.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, FirstByte, Settled, StateRefused
from router.contract.relay import Headers, KeepingSink, Sink
from router.contract.request import Conversation, InBand, Overrides, RequestView
from router.contract.session import NOBODY, SessionSnapshot, SessionState, read_state
from router.contract.signals import Alias, SessionPosition, Turn
from router.contract.stores import SessionStore
from router.contract.words import PERSONS_KINDS, Outcome, Tier, TurnKind
from router.dialects.beginnings import learned_at
from router.dialects.opaque import keys_of, refused_by
from router.sessions import turn_state
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.history import newest_words
from router.sessions.said import mark_answer, mark_said
from router.sessions.tier_line import say_tier
from router.sessions.turns import read_turn
from router.sessions.wishes import AUTO, Channel, Naming, exact_name, kept_name, lapsed, newest_channel, read_naming
from router.sessions.words import LAST_TWO, opening_words

_REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""
_OF_THE_CONVERSATION = (*_REMEMBERED, TurnKind.COMPACTION)
"""Requests that show a target the whole conversation, which is warm there from then on."""
_MAX_SESSIONS = 4_096
_ALIKE = range(1, 9)
"""So many sessions that begin alike are told apart."""
_KNOWN_WHOLE = 512
"""A text of so many characters is known by all of them, a longer one by its ends."""
_LONGEST_SECONDS = 7 * 86_400.0
_DEFAULT_CACHE_MINUTES = 5.0
_NEW, _NO_POSITION, _AUTO = SessionState(), SessionPosition(), Alias(AUTO)
_NO_OVERRIDES = Overrides()
_call_id, _result_id = attrgetter("id"), attrgetter("call_id")


class SessionMemory:
    """Sessions by caller and id. The longest unused is forgotten first. Writes what it observes of requests."""

    def __init__(self, store: SessionStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._known: OrderedDict[str, SessionState] = OrderedDict()
        self._listening: dict[Exchange, KeepingSink] = {}

    # Reading: changes nothing but what is at hand.

    async def recall(self, view: RequestView, turn: Turn, alias: Alias = _AUTO) -> SessionSnapshot:
        """What is known of the session that a request belongs to, and which wish counts in it."""
        now, messages = self._clock(), len(view.conversation.items)
        name = "" if alias.name == AUTO else kept_name(exact_name(alias))
        key, state, replaces = await self._find(view, turn, messages, now, name)
        if turn.kind not in _OF_THE_CONVERSATION:
            found = SessionSnapshot(key, state, _NO_POSITION, state.origins, messages, replaces)
            return _with_wish(found, view, turn, alias)
        tier = state.tier
        is_running = tier is not None and _is_running(state, turn)
        if not is_running and turn.goes_on:
            carried = turn_state.read(view.headers, view.body, key, _turn_mark(turn))
            if carried is not None:
                tier, is_running = carried, True
        # A conversation that became shorter is another prefix: nothing of it is warm.
        is_shorter = messages < state.messages
        position = SessionPosition(
            tier,
            is_running,
            is_running and state.has_escalated,
            {} if is_shorter else {target: tokens for target, (tokens, until) in state.warm.items() if until > now},
            is_running and state.was_asked_for,
            state.effort,
        )
        origins = _name_origins(view, state) if messages > state.messages else state.origins
        found = SessionSnapshot(key, state, position, origins, messages, replaces)
        if not name and not state.name and not state.has_override and view.overrides == _NO_OVERRIDES:
            return found  # nobody ever asked for anything
        return _with_wish(found, view, turn, alias)

    async def _find(
        self, view: RequestView, turn: Turn, messages: int, now: float, name: str
    ) -> tuple[str, SessionState, SessionState | None]:
        """The session; one that a client does not name is told by its beginning, and by extending what is remembered.

        Of several that it extends, the one with the same model name is meant. One with an override for the session is extended
        only by what has the answer to the request that set it: to begin alike is not enough. The last is another session
        whose slot it takes.
        """
        base = key = oldest_key = f"{view.caller.name}\0{turn.session}"
        oldest: SessionState | None = None
        renamed: tuple[str, SessionState] | None = None
        for number in _ALIKE:
            state = self._known.get(key)
            if state is None or now - state.at >= _LONGEST_SECONDS:
                state = await self._load(key, now)
            if state is None:
                return (*renamed, None) if renamed else (key, _NEW, None)
            if not turn.is_guessed:
                return key, state, None
            if (
                messages >= state.messages
                and _last_mark(view, turn, state.messages) == state.last
                and (not state.has_override or _has_answer(view.conversation, messages, state))
            ):
                if state.name == name:
                    return key, state, None
                if messages > state.messages:
                    renamed = renamed or (key, state)
            if oldest is None or state.at < oldest.at:
                oldest_key, oldest = key, state
            key = f"{base}\0{number}"
        if renamed:
            return (*renamed, None)
        return oldest_key, _NEW, oldest

    async def _load(self, key: str, now: float) -> SessionState | None:
        """A session that is not at hand. One that is too old is none."""
        stored = await self._store.load(_digest(key))
        state = self._known.get(key)  # another request of the session may have come by meanwhile
        if state is None and stored and (state := read_state(stored)) is not None:
            self._put(key, state)
        if state is not None and now - state.at >= _LONGEST_SECONDS:
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
        view, session, decision = decided.view, decided.session, decided.decision
        turn, overrides = decision.turn, view.overrides
        before, now = self._current(session), self._clock()
        state = before
        if overrides.for_session or session.heeds_line or session.name is not None:
            state = _remember_wish(state, session, view, turn, now)
        if turn.kind in _REMEMBERED:
            if overrides.tier is None or not _is_aside(session, view):
                state = _move(state, session, decision, target.tier, view.effort)
            last = _mark_of(view, turn, session) if turn.is_guessed else None
            state = state.with_answer(target.name, session.messages, session.origins, last, at=now)
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
        decided, ended = exchange.last(Decided), exchange.last(AttemptEnded)
        if decided is None:
            return
        session, decision = decided.session, decided.decision
        known = self._known.get(session.key)
        if known is session.replaces:
            known = None
        if self._listening and (heard := self._listening.pop(exchange, None)) is not None and known is not None:
            known = known.with_said(mark_answer(decided.view.dialect, heard.body))
            self._put(session.key, known)
        if settled.ending.outcome is Outcome.SERVED and ended is not None and decision.turn.kind in _OF_THE_CONVERSATION:
            usage, target, now = ended.usage, ended.target, self._clock()
            price, before = target.price, session.state
            tokens = usage.input_tokens + usage.output_tokens if usage else decision.prompt_tokens
            until = now + (price.cache_minutes if price else _DEFAULT_CACHE_MINUTES) * 60
            is_shorter = session.messages < before.messages
            known = (known or before).with_warm(target.name, tokens, until, is_shorter=is_shorter, at=now)
            self._put(session.key, known)
        if known is not None:
            self._store.save(_digest(session.key), known.at, known.write())

    async def set_tier(self, view: RequestView, line: InBand, alias: Alias) -> str:
        """Remember a message that is only a line, and say so. No target learns of it, and later requests leave it out.

        A session without a name of its own need not remember the line, which comes with every request.
        """
        turn = read_turn(view)
        session = await self.recall(view, turn, alias)
        before = state = self._current(session)
        place = line.place - 1  # so that the next message, which takes this one's place, is newer
        if session.name is not None and (before.messages or not turn.is_guessed):
            name, at = session.name
            state = state.with_name(name, min(at, place))
        if not turn.is_guessed:
            state = state.with_override(line.tier, place, line.mark, session.messages, at=self._clock())
        if state is not before:
            self._put(session.key, state)
            self._store.save(_digest(session.key), state.at, state.write())
        return say_tier(line.tier)

    def listen(self, exchange: Exchange, caller: Sink) -> Sink:
        """The way to a caller who asks for a tier for the session. Without a name of its own it is known by its answer."""
        decided = exchange.last(Decided)
        if decided is None or not decided.decision.turn.is_guessed:
            return caller
        sink = self._listening[exchange] = KeepingSink(caller)
        return sink

    def _current(self, session: SessionSnapshot) -> SessionState:
        """The session as it is now: another of its requests may have changed it since this one looked."""
        state = self._known.get(session.key)
        return session.state if state is None or state is session.replaces else state

    def _put(self, key: str, state: SessionState) -> None:
        known = self._known
        known[key] = state
        known.move_to_end(key)
        if len(known) > _MAX_SESSIONS:
            known.popitem(last=False)

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


def _with_wish(found: SessionSnapshot, view: RequestView, turn: Turn, alias: Alias) -> SessionSnapshot:
    """The session with the wish that counts: see `wishes.py`."""
    state, line, name = found.state, view.overrides.line, exact_name(alias)
    client = BY_NAME.get(turn.client, UNKNOWN_CLIENT)
    newest = newest_words(view.conversation, client)
    is_persons = turn.kind in PERSONS_KINDS
    naming = lapsed(state)
    if name is not None:
        is_first = not is_persons or (turn.is_guessed and not turn.history.turns)
        naming = read_naming(name, state, newest, is_first=is_first, begins_turn=turn.kind is not TurnKind.TOOL_LOOP)
    channel = newest_channel(line, state, naming)
    return replace(
        found,
        override=state.override if channel is Channel.SESSION else None,
        heeds_line=channel is Channel.LINE,
        heeds_name=channel is Channel.NAME or channel is None,
        newest=newest,
        name=_name_to_keep(state, naming, view, newest, channel)
        if naming is not None and name is not None and is_persons
        else None,
    )


def _name_to_keep(
    state: SessionState, naming: Naming, view: RequestView, newest: int, channel: Channel | None
) -> tuple[str, int] | None:
    """What is to be remembered of a name, if anything.

    Where a line or a header counts, the name is older, whatever its place says: a shortened history has other places.
    """
    name, at, line = kept_name(naming.name), naming.at, view.overrides.line
    if name != state.name and state.messages and not naming.is_new:
        return None  # it changed inside a turn
    if channel is Channel.LINE and line is not None:
        at = min(at, line.place)
    if view.overrides.for_session:
        at = min(at, newest)
    return (name, at) if (name, at) != (state.name, state.name_at) else None


def _remember_wish(state: SessionState, session: SessionSnapshot, view: RequestView, turn: Turn, now: float) -> SessionState:
    overrides, line = view.overrides, view.overrides.line
    mark = line.mark if line else ""
    if session.name is not None:
        state = state.with_name(*session.name)
    if overrides.for_session:
        return state.with_override(overrides.tier, session.newest, mark, session.messages, at=now)
    if session.heeds_line and line is not None and not turn.is_guessed and not _knows(state, line):
        # The line comes with every request until the client shortens the history. A session that is only guessed by its
        # first words remembers none: others may begin with the same.
        return state.with_override(line.tier, line.place, mark, session.messages, at=now)
    return state


def _knows(state: SessionState, line: InBand) -> bool:
    return state.has_override and state.override_line == line.mark and state.override is line.tier


def _has_answer(conversation: Conversation, messages: int, state: SessionState) -> bool:
    """Whether a conversation has the answer to the request that set the session's override."""
    if messages <= state.override_messages:
        return False
    return not state.said or mark_said(conversation, state.override_messages) == state.said


def _is_running(state: SessionState, turn: Turn) -> bool:
    """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on"."""
    if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
        return state.turn == _turn_mark(turn)
    return turn.kind is TurnKind.FOLLOW_UP and state.has_escalated


def _is_aside(session: SessionSnapshot, view: RequestView) -> bool:
    """An override for one request does not move the running turn."""
    return view.overrides.tier is not None and not view.overrides.for_session and session.position.is_running


def _move(state: SessionState, session: SessionSnapshot, decision: Decision, served: Tier, effort: str | None) -> SessionState:
    """The session after its turn went to a tier."""
    position, tier, mark = session.position, _higher(decision.tier, served), _turn_mark(decision.turn)
    rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
    # Another request of the same turn may have moved it up since this one looked.
    was_raised = state is not session.state and state.turn == mark and state.has_escalated
    return state.with_turn(
        mark,
        Tier.DEEP if was_raised else tier,
        has_escalated=rose or was_raised or position.has_escalated,
        was_asked_for=decision.was_asked_for or position.was_asked_for,
        effort=effort,
    )


def _higher(decided: Tier, served: Tier) -> Tier:
    """Where a turn belongs: where it was decided to go, or up where somebody stood in; never down for one busy moment."""
    return decided if decided is served else Tier.DEEP


@lru_cache(maxsize=1024)
def _digest(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _turn_mark(turn: Turn) -> str:
    """A turn is known by what was asked: every call of its tool loop repeats that."""
    asked = turn.turn_id or turn.person_text or ""
    return _mark(asked if len(asked) <= _KNOWN_WHOLE else _ends(asked))


@lru_cache(maxsize=256)
def _mark(text: str) -> str:
    """The mark of a short text. Every call of a tool loop asks for the same one."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _mark_of(view: RequestView, turn: Turn, session: SessionSnapshot) -> str:
    """What the conversation came to with this request. One that was sent before has the mark by which it was found."""
    state = session.state
    was_sent = state.last and state.messages == session.messages
    return state.last if was_sent else _last_mark(view, turn, session.messages)


def _last_mark(view: RequestView, turn: Turn, count: int) -> str:
    """What the conversation had come to after so many messages: the last of them, and the answer before it.

    Where a beginning of just these messages is known, the mark is kept with what else they told: the next call of a tool loop
    asks for it again.
    """
    conversation = view.conversation
    if conversation.known is None:
        return _mark_end(conversation, count, turn.client)
    learned, name = learned_at(conversation.known, count), f"last {turn.client}"
    mark: str | None = learned.get(name)
    if mark is None:
        mark = learned[name] = _mark_end(conversation, count, turn.client)
    return mark


def _mark_end(conversation: Conversation, count: int, client_name: str) -> str:
    """The mark itself. Only words count that a person typed."""
    client, messages = BY_NAME.get(client_name, UNKNOWN_CLIENT), conversation.messages
    parts: list[str] = []
    for place in range(count)[LAST_TWO]:
        message = messages[place]
        role = message.role
        if role == "user":
            parts += (role, _ends(opening_words(message, client)))
        else:
            parts += (role, *map(_ends, message.texts))
        if message.calls:
            parts += map(_call_id, message.calls)
        if message.results:
            parts += map(_result_id, message.results)
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _ends(text: str) -> str:
    """Enough to know a text by."""
    return text if len(text) <= _KNOWN_WHOLE else f"{text[:256]}{text[-256:]}{len(text)}"


def _name_origins(view: RequestView, known: SessionState) -> Mapping[str, str]:
    """Who made the hidden state in a request: as remembered, or, for what is new since then, who answered last."""
    origins = known.origins
    if known.target is None or not known.messages:
        return origins
    found: dict[str, str] | None = None
    for key in keys_of(view, known.messages):
        if key not in origins:
            found = found or dict(origins)
            found[key] = known.target
    return origins if found is None else found
