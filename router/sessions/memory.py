"""What is remembered of a session: where its turns went, what is warm where, and who made which hidden state.

In the process, bounded by count and age; what must survive a restart is handed to a store in small pieces. No text is kept:
fingerprints, tiers, counts and times.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from router.contract.memory import SessionStore
from router.contract.request import RequestView
from router.contract.signals import SessionPosition, Turn
from router.contract.target import Target
from router.contract.words import PERSONS_KINDS, Tier, TurnKind
from router.dialects.opaque import keys_of, refused_by
from router.sessions import turn_state
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.state import NOBODY, SessionState, read_state
from router.sessions.words import opening_words

_REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""
_MAX_SESSIONS = 4_096
_MAX_ALIKE = 8
_LONGEST_SECONDS = 7 * 86_400.0
_DEFAULT_CACHE_MINUTES = 5.0
_NEW = SessionState()


class SessionSnapshot:
    """A session as one request finds it: a snapshot. What the request changes is changed in the session as it then is."""

    __slots__ = ("heeds_line", "is_replaced", "key", "known", "origins", "position", "wish")

    def __init__(
        self,
        key: str,
        known: SessionState,
        position: SessionPosition,
        origins: Mapping[str, str],
        *,
        heeds_line: bool,
        is_replaced: bool,
    ) -> None:
        self.key, self.known, self.position, self.origins, self.heeds_line = key, known, position, origins, heeds_line
        self.wish = Tier(known.wish) if known.wish else None
        self.is_replaced = is_replaced
        """Whether the session takes the slot of an older one that began alike."""


class SessionMemory:
    """Sessions by caller and id. The longest unused is forgotten first."""

    def __init__(self, store: SessionStore, targets: Mapping[str, Target], clock: Callable[[], float] = time.time) -> None:
        self._store, self._targets, self._clock = store, targets, clock
        self._known: OrderedDict[str, SessionState] = OrderedDict()

    # Reading: changes nothing.

    def recall(self, view: RequestView, turn: Turn) -> SessionSnapshot:
        """What is known of the session that a request belongs to."""
        key, known, is_replaced = self._find(view, turn)
        line = view.overrides.line
        heeds_line = line is not None and line.place >= known.wish_at
        if turn.kind not in _REMEMBERED and turn.kind is not TurnKind.COMPACTION:
            return SessionSnapshot(key, known, SessionPosition(), known.origins, heeds_line=heeds_line, is_replaced=is_replaced)
        tier = Tier(known.tier) if known.tier else None
        is_running = tier is not None and self._is_running(known, turn)
        if not is_running and turn.goes_on:
            carried = turn_state.read(view.headers, view.body, key, _turn_mark(turn))
            if carried is not None:
                tier, is_running = carried, True
        position = SessionPosition(
            tier,
            is_running,
            known.has_escalated and is_running,
            self._find_warm(view, known),
            known.was_asked_for and is_running,
            known.effort,
        )
        origins = _name_origins(view, known)
        return SessionSnapshot(key, known, position, origins, heeds_line=heeds_line, is_replaced=is_replaced)

    @staticmethod
    def _is_running(known: SessionState, turn: Turn) -> bool:
        """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on"."""
        if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
            return known.turn == _turn_mark(turn)
        return turn.kind is TurnKind.FOLLOW_UP and known.has_escalated

    def _find_warm(self, view: RequestView, known: SessionState) -> Mapping[str, int]:
        """What targets still have warm. A conversation that became shorter is another prefix: nothing of it is."""
        if len(view.conversation) < known.messages:
            return {}
        now = self._clock()
        return {target: tokens for target, (tokens, until) in known.warm.items() if until > now}

    def _find(self, view: RequestView, turn: Turn) -> tuple[str, SessionState, bool]:
        """The session; one that a client does not name is told by its beginning, and by extending what is remembered.

        The last says whether it takes the slot of another.
        """
        base = f"{view.caller}\0{turn.session}"
        if not turn.is_guessed:
            return base, self._load(base) or _NEW, False
        oldest = (base, float("inf"))
        for number in range(_MAX_ALIKE):
            key = f"{base}\0{number}" if number else base
            known = self._load(key)
            if known is None or _extends(view, turn, known):
                return key, known or _NEW, False
            oldest = min(oldest, (key, known.at), key=lambda pair: pair[1])
        return oldest[0], _NEW, True

    def _load(self, key: str) -> SessionState | None:
        known = self._known.get(key)
        if known is None:
            stored = self._store.load(_digest(key))
            known = read_state(stored) if stored else None
        return known if known is not None and self._clock() - known.at < _LONGEST_SECONDS else None

    # Writing: what a request came to.

    @staticmethod
    def mint_turn_state(snapshot: SessionSnapshot, view: RequestView, turn: Turn, decided: Tier, served: Tier) -> str | None:
        """The token by which a client carries the turn's tier itself; None for clients that carry none."""
        if turn.client != "codex" or turn.kind not in _REMEMBERED:
            return None
        tier = snapshot.position.tier if _is_aside(snapshot, view) else _higher(decided, served)
        return turn_state.mint(snapshot.key, _turn_mark(turn), tier) if tier is not None else None

    def note_answer(
        self,
        snapshot: SessionSnapshot,
        view: RequestView,
        turn: Turn,
        decided: Tier,
        target: Target,
        *,
        was_asked_for: bool = False,
    ) -> None:
        """An answer begins: from now on what is new in this session's next request is this target's own.

        Not when it ends: a client goes on at the last event, which may come before that, and what a cut answer said comes
        back too.
        """
        overrides, messages = view.overrides, len(view.conversation)
        state = self._current(snapshot)
        if overrides.for_session or snapshot.heeds_line:
            state = state.with_wish(
                overrides.tier if overrides.for_session else overrides.line.tier if overrides.line else None, messages
            )
        if turn.kind in _REMEMBERED:
            if not _is_aside(snapshot, view):
                position, tier = snapshot.position, _higher(decided, target.tier)
                rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
                state = state.with_turn(
                    _turn_mark(turn),
                    tier,
                    has_escalated=rose or (position.is_running and position.has_escalated),
                    was_asked_for=was_asked_for or (position.is_running and position.was_asked_for),
                    effort=view.effort,
                )
            last = _last_mark(view, turn, messages) if turn.is_guessed else None
            state = state.with_answer(target.name, messages, snapshot.origins, last)
        self._keep(snapshot, state)

    def note_served(self, snapshot: SessionSnapshot, view: RequestView, turn: Turn, target: str, tokens: int) -> None:
        """A target answered in full: it has the conversation warm now."""
        if turn.kind in _REMEMBERED or turn.kind is TurnKind.COMPACTION:
            price = self._targets[target].price
            until = self._clock() + (price.cache_minutes if price else _DEFAULT_CACHE_MINUTES) * 60
            state = self._current(snapshot)
            is_shorter = len(view.conversation) < snapshot.known.messages
            self._keep(snapshot, state.with_warm(target, tokens, until, is_shorter=is_shorter))

    def note_refused(self, snapshot: SessionSnapshot, target: str, keys: tuple[str, ...]) -> None:
        """A target refused these pieces and then served without them: it does not get them again."""
        refused = {key: NOBODY if key in snapshot.origins else refused_by(target) for key in keys}
        snapshot.origins = {**snapshot.origins, **refused}
        self._keep(snapshot, self._current(snapshot).with_origins(snapshot.origins))

    def save(self, snapshot: SessionSnapshot) -> None:
        """Hand the session to the store, once for each request."""
        state = self._known.get(snapshot.key)
        if state is not None:
            self._store.save(_digest(snapshot.key), state.at, state.write())

    def _current(self, snapshot: SessionSnapshot) -> SessionState:
        """The session as it is now: another of its requests may have changed it since this one looked."""
        return _NEW if snapshot.is_replaced else self._load(snapshot.key) or _NEW

    def _keep(self, snapshot: SessionSnapshot, state: SessionState) -> None:
        snapshot.is_replaced = False
        self._known[snapshot.key] = state._replace(at=self._clock())
        self._known.move_to_end(snapshot.key)
        if len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)

    def close(self) -> None:
        """Write what is left."""
        self._store.close()


def _is_aside(snapshot: SessionSnapshot, view: RequestView) -> bool:
    """A wish for one request does not move the running turn."""
    return view.overrides.tier is not None and not view.overrides.for_session and snapshot.position.is_running


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
