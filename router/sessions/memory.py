"""What is remembered of a session: where its turns went, what is warm where, and who made which hidden state.

In the process, bounded by count and age; what must survive a restart is handed to a store in small pieces. No text is kept:
fingerprints, tiers, counts and times.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from router.contract.memory import SessionStore
from router.contract.request import RequestView
from router.contract.signals import Place, Turn
from router.contract.target import Target
from router.contract.words import PERSONS_KINDS, Tier, TurnKind
from router.dialects.opaque import keys_of, refused_by
from router.sessions import turn_state
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.words import opening_words

_REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""
_MOST_SESSIONS = 4_096
_MOST_MAKERS = 600
_MOST_ALIKE = 8
_LONGEST_SECONDS = 7 * 86_400.0
_DEFAULT_CACHE_MINUTES = 5.0
_NOBODY = "-"
"""The maker of state that was refused by the very target that was said to have made it."""


@dataclass(slots=True)
class Remembered:
    """One session."""

    at: float = 0.0
    tier: str | None = None
    target: str | None = None
    turn: str = ""
    has_escalated: bool = False
    was_asked_for: bool = False
    """Whether somebody asked for the running turn's tier."""
    effort: str | None = None
    """The reasoning effort of the session's first turn."""
    wish: str | None = None
    wish_at: int = 0
    """How long the conversation was when the wish was made: a line further down is newer."""
    count: int = 0
    last: str = ""
    warm: dict[str, tuple[int, float]] = field(default_factory=dict)
    makers: Mapping[str, str] = field(default_factory=dict)


class Recalled:
    """A session as one request finds it. Nothing is changed until an answer begins."""

    __slots__ = ("heeds_line", "key", "known", "makers", "place", "wish")

    def __init__(self, key: str, known: Remembered, place: Place, makers: Mapping[str, str], *, heeds_line: bool) -> None:
        self.key, self.known, self.place, self.makers, self.heeds_line = key, known, place, makers, heeds_line
        self.wish = Tier(known.wish) if known.wish else None


class SessionMemory:
    """Sessions by caller and id. The longest unused is forgotten first."""

    def __init__(self, store: SessionStore, targets: Mapping[str, Target], clock: Callable[[], float] = time.time) -> None:
        self._store, self._targets, self._clock = store, targets, clock
        self._known: OrderedDict[str, Remembered] = OrderedDict()

    # Reading: changes nothing.

    def recall(self, view: RequestView, turn: Turn) -> Recalled:
        """What is known of the session that a request belongs to."""
        key, known = self._find(view, turn)
        line = view.wishes.line
        heeds_line = line is not None and line.place >= known.wish_at
        if turn.kind not in _REMEMBERED and turn.kind is not TurnKind.COMPACTION:
            return Recalled(key, known, Place(), known.makers, heeds_line=heeds_line)
        tier = Tier(known.tier) if known.tier else None
        is_running = tier is not None and self._is_running(known, turn)
        if not is_running and turn.goes_on:
            carried = turn_state.read(view.headers, view.body, key, _turn_mark(turn))
            if carried is not None:
                tier, is_running = carried, True
        place = Place(
            tier,
            is_running,
            known.has_escalated and is_running,
            self._find_warm(view, known),
            known.was_asked_for and is_running,
            known.effort,
        )
        return Recalled(key, known, place, _name_makers(view, known), heeds_line=heeds_line)

    @staticmethod
    def _is_running(known: Remembered, turn: Turn) -> bool:
        """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on"."""
        if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
            return known.turn == _turn_mark(turn)
        return turn.kind is TurnKind.FOLLOW_UP and known.has_escalated

    def _find_warm(self, view: RequestView, known: Remembered) -> Mapping[str, int]:
        """What targets still have warm. A conversation that became shorter is another prefix: nothing of it is."""
        if len(view.conversation) < known.count:
            return {}
        now = self._clock()
        return {target: tokens for target, (tokens, until) in known.warm.items() if until > now}

    def _find(self, view: RequestView, turn: Turn) -> tuple[str, Remembered]:
        """The session; one that a client does not name is told by its beginning, and by extending what is remembered."""
        base = f"{view.caller}\0{turn.session}"
        if not turn.is_guessed:
            return base, self._load(base) or Remembered()
        oldest = (base, float("inf"))
        for number in range(_MOST_ALIKE):
            key = f"{base}\0{number}" if number else base
            known = self._load(key)
            if known is None or _extends(view, turn, known):
                return key, known or Remembered()
            oldest = min(oldest, (key, known.at), key=lambda pair: pair[1])
        return oldest[0], Remembered()

    def _load(self, key: str) -> Remembered | None:
        known = self._known.get(key)
        if known is None:
            stored = self._store.load(_digest(key))
            known = _read(stored) if stored else None
        return known if known is not None and self._clock() - known.at < _LONGEST_SECONDS else None

    # Writing: what a request came to.

    @staticmethod
    def mint_turn_state(recalled: Recalled, view: RequestView, turn: Turn, decided: Tier, served: Tier) -> str | None:
        """The token by which a client carries the turn's tier itself; None for clients that carry none."""
        if turn.client != "codex" or turn.kind not in _REMEMBERED:
            return None
        tier = recalled.place.tier if _is_aside(recalled, view) else _higher(decided, served)
        return turn_state.mint(recalled.key, _turn_mark(turn), tier) if tier is not None else None

    def note_answer(
        self, recalled: Recalled, view: RequestView, turn: Turn, decided: Tier, target: Target, *, was_asked_for: bool = False
    ) -> None:
        """An answer begins: from now on what is new in this session's next request is this target's own.

        Not when it ends: a client goes on at the last event, which may come before that, and what a cut answer said comes
        back too.
        """
        known, wishes = recalled.known, view.wishes
        if wishes.for_session or recalled.heeds_line:
            wish = wishes.tier if wishes.for_session else wishes.line.tier if wishes.line else None
            known.wish, known.wish_at = str(wish) if wish else None, len(view.conversation)
        if turn.kind in _REMEMBERED:
            if not _is_aside(recalled, view):
                self._note_turn(recalled, turn, _higher(decided, target.tier), was_asked_for=was_asked_for)
                known.effort = known.effort or view.effort
            known.makers = _newest(recalled.makers)
            known.target, known.count = target.name, len(view.conversation)
            if turn.is_guessed:
                known.last = _last_mark(view, turn, known.count)
        self._touch(recalled)

    @staticmethod
    def _note_turn(recalled: Recalled, turn: Turn, tier: Tier, *, was_asked_for: bool) -> None:
        known, is_running = recalled.known, recalled.place.is_running
        rose = is_running and recalled.place.tier is Tier.FAST and tier is Tier.DEEP
        known.has_escalated = rose or (is_running and recalled.place.has_escalated)
        known.was_asked_for = was_asked_for or (is_running and recalled.place.was_asked_for)
        known.turn, known.tier = _turn_mark(turn), str(tier)

    def note_served(self, recalled: Recalled, view: RequestView, turn: Turn, target: str, tokens: int) -> None:
        """A target answered in full: it has the conversation warm now."""
        if turn.kind in _REMEMBERED or turn.kind is TurnKind.COMPACTION:
            price = self._targets[target].price
            minutes = price.cache_minutes if price else _DEFAULT_CACHE_MINUTES
            warm = recalled.known.warm if len(view.conversation) >= recalled.known.count else {}
            recalled.known.warm = {**warm, target: (tokens, self._clock() + minutes * 60)}
            self._touch(recalled)

    def note_refused(self, recalled: Recalled, target: str, keys: tuple[str, ...]) -> None:
        """A target refused these pieces and then served without them: it does not get them again."""
        makers = dict(recalled.makers)
        for key in keys:
            makers[key] = _NOBODY if key in makers else refused_by(target)
        recalled.makers = makers
        recalled.known.makers = _newest(makers)
        self._touch(recalled)

    def save(self, recalled: Recalled) -> None:
        """Hand the session to the store, once for each request."""
        if recalled.key in self._known:
            self._store.save(_digest(recalled.key), recalled.known.at, orjson.dumps(recalled.known))

    def _touch(self, recalled: Recalled) -> None:
        recalled.known.at = self._clock()
        self._known[recalled.key] = recalled.known
        self._known.move_to_end(recalled.key)
        if len(self._known) > _MOST_SESSIONS:
            self._known.popitem(last=False)

    def close(self) -> None:
        """Write what is left."""
        self._store.close()


def _is_aside(recalled: Recalled, view: RequestView) -> bool:
    """A wish for one request does not move the running turn."""
    return view.wishes.tier is not None and not view.wishes.for_session and recalled.place.is_running


def _higher(decided: Tier, served: Tier) -> Tier:
    """Where a turn belongs: where it was decided to go, or up where somebody stood in; never down for one busy moment."""
    return Tier.DEEP if decided is Tier.DEEP or served is Tier.DEEP else Tier.FAST


def _newest(makers: Mapping[str, str]) -> Mapping[str, str]:
    return makers if len(makers) <= _MOST_MAKERS else dict(list(makers.items())[-_MOST_MAKERS:])


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


def _extends(view: RequestView, turn: Turn, known: Remembered) -> bool:
    """Whether a request's history goes on from what is remembered."""
    return len(view.conversation) >= known.count and _last_mark(view, turn, known.count) == known.last


def _name_makers(view: RequestView, known: Remembered) -> Mapping[str, str]:
    """Who made the hidden state in a request: as remembered, or, for what is new since then, who answered last."""
    makers = known.makers
    if known.target is None or not known.count:
        return makers
    found: dict[str, str] | None = None
    for index in range(known.count, len(view.conversation)):
        for key in keys_of(view.dialect, view.conversation.item(index)):
            if key not in makers:
                found = found or dict(makers)
                found[key] = known.target
    return makers if found is None else found


def _read(stored: bytes) -> Remembered | None:
    try:
        values: dict[str, Any] = orjson.loads(stored)
        known = Remembered(**{entry.name: values[entry.name] for entry in fields(Remembered) if entry.name in values})
        known.warm = {name: (int(tokens), float(until)) for name, (tokens, until) in known.warm.items()}
        for tier in (known.tier, known.wish):
            if tier is not None:
                Tier(tier)
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return None
    return known
