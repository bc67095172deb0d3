"""What is remembered of a session: where its turns went, what is warm where, and who made which hidden state.

In the process, bounded by count and age; what must survive a restart is handed to a store in small pieces. No text is kept:
fingerprints, tiers, counts and times.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

import orjson

from router.contract.memory import SessionStore
from router.contract.request import RequestView
from router.contract.signals import Place, Turn
from router.contract.target import Target
from router.contract.words import Tier, TurnKind
from router.dialects.opaque import keys_of
from router.sessions import turn_state

_PERSONS = (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP)
_MOST_SESSIONS = 4_096
_MOST_MAKERS = 2_000
_MOST_ALIKE = 8
_LONGEST_SECONDS = 7 * 86_400.0
_DEFAULT_CACHE_MINUTES = 5.0
_NOBODY = "-"
"""The maker of state that a target refused although it was said to be its own."""


@dataclass(slots=True)
class Remembered:
    """One session."""

    at: float = 0.0
    tier: str | None = None
    target: str | None = None
    turn: str = ""
    has_escalated: bool = False
    wish: str | None = None
    count: int = 0
    last: str = ""
    warm: dict[str, tuple[int, float]] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)


class Recalled:
    """A session as one request finds it. Nothing is changed until the request was decided and served."""

    __slots__ = ("key", "known", "makers", "place", "wish")

    def __init__(self, key: str, known: Remembered, place: Place, makers: Mapping[str, str]) -> None:
        self.key, self.known, self.place, self.makers = key, known, place, makers
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
        now = self._clock()
        is_persons = turn.kind in _PERSONS
        tier = Tier(known.tier) if known.tier else None
        is_running = False
        if turn.kind is TurnKind.TOOL_LOOP:
            is_running = tier is not None and known.turn == _turn_mark(turn)
            if not is_running and (carried := turn_state.read(view.headers, view.body, key, _turn_mark(turn))) is not None:
                tier, is_running = carried, True
        warm = {target: tokens for target, (tokens, until) in known.warm.items() if until > now}
        place = Place(tier, is_running, known.has_escalated and is_running, warm)
        return Recalled(key, known, place, _name_makers(view, known) if is_persons or known.makers else {})

    def _find(self, view: RequestView, turn: Turn) -> tuple[str, Remembered]:
        """The session; one that a client does not name is told by its beginning, and by extending what is remembered."""
        base = f"{view.caller}\0{turn.session}"
        if not turn.is_guessed:
            return base, self._load(base) or Remembered()
        for number in range(_MOST_ALIKE):
            key = f"{base}\0{number}" if number else base
            known = self._load(key)
            if known is None or _extends(view, known):
                return key, known or Remembered()
        return base, Remembered()

    def _load(self, key: str) -> Remembered | None:
        known = self._known.get(key)
        if known is None:
            stored = self._store.load(_digest(key))
            known = _read(stored) if stored else None
            if known is not None and self._clock() - known.at < _LONGEST_SECONDS:
                self._known[key] = known
        return known

    # Writing: what a request came to.

    def mint_turn_state(self, recalled: Recalled, turn: Turn, tier: Tier) -> str | None:
        """The token by which a client carries the turn's tier itself; None for clients that carry none."""
        if turn.client != "codex" or turn.kind not in _PERSONS:
            return None
        return turn_state.mint(recalled.key, _turn_mark(turn), tier)

    def note_decision(self, recalled: Recalled, view: RequestView, turn: Turn, tier: Tier) -> None:
        """A turn was decided. Side requests, compaction and subagents leave the person's session where it is."""
        known = recalled.known
        wishes = view.wishes
        if wishes.for_session:
            known.wish = str(wishes.tier) if wishes.tier else None
        elif wishes.line is not None:
            known.wish = None  # the line itself comes again with every request of the session
        if turn.kind in _PERSONS:
            if turn.kind is TurnKind.TOOL_LOOP:
                rose = recalled.place.is_running and known.tier == Tier.FAST and tier is Tier.DEEP
                known.has_escalated = rose or (known.has_escalated and recalled.place.is_running)
            else:
                known.has_escalated = False
            known.turn, known.tier = _turn_mark(turn), str(tier)
        self._touch(recalled)

    def note_served(self, recalled: Recalled, view: RequestView, turn: Turn, target: str, prompt_tokens: int) -> None:
        """A target answered: it has the conversation warm now, and what is new in the next request is its own."""
        if turn.kind not in _PERSONS and turn.kind is not TurnKind.COMPACTION:
            return
        known, now = recalled.known, self._clock()
        price = self._targets[target].price
        minutes = price.cache_minutes if price else _DEFAULT_CACHE_MINUTES
        if turn.kind is not TurnKind.COMPACTION:
            known.makers = dict(list(recalled.makers.items())[-_MOST_MAKERS:])
            known.target, known.count, known.last = target, len(view.conversation), _last_mark(view, len(view.conversation))
            known.tier = str(self._targets[target].tier)
        known.warm[target] = (prompt_tokens, now + minutes * 60)
        self._touch(recalled)

    def note_refused(self, recalled: Recalled, keys: tuple[str, ...]) -> None:
        """A target refused state in the conversation: from now on nobody gets these pieces."""
        recalled.makers = {**recalled.makers, **dict.fromkeys(keys, _NOBODY)}
        recalled.known.makers = dict(recalled.makers)
        self._touch(recalled)

    def save(self, recalled: Recalled) -> None:
        """Hand the session to the store, once for each request."""
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


def _digest(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _turn_mark(turn: Turn) -> str:
    """A turn is known by what was asked: every call of its tool loop repeats that."""
    return blake2b((turn.turn_id or turn.person_text or "").encode("utf-8", "replace"), digest_size=8).hexdigest()


def _last_mark(view: RequestView, count: int) -> str:
    message = view.conversation[count - 1] if 0 < count <= len(view.conversation) else None
    if message is None:
        return ""
    calls = [call.id for call in message.calls] + [result.call_id for result in message.results]
    return blake2b("\0".join([message.role, *message.texts, *calls]).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _extends(view: RequestView, known: Remembered) -> bool:
    """Whether a request's history goes on from what is remembered."""
    return known.count == 0 or (len(view.conversation) >= known.count and _last_mark(view, known.count) == known.last)


def _name_makers(view: RequestView, known: Remembered) -> Mapping[str, str]:
    """Who made the hidden state in a request: as remembered, or, for what is new since then, who answered last."""
    makers = known.makers
    found: dict[str, str] | None = None
    for index in range(known.count, len(view.conversation)):
        for key in keys_of(view.dialect, view.conversation.item(index)):
            if key not in makers and known.target is not None and known.count:
                found = found or dict(makers)
                found[key] = known.target
    return makers if found is None else found


def _read(stored: bytes) -> Remembered | None:
    try:
        values: dict[str, Any] = orjson.loads(stored)
        known = Remembered(**{entry.name: values[entry.name] for entry in fields(Remembered) if entry.name in values})
        known.warm = {name: (int(tokens), float(until)) for name, (tokens, until) in known.warm.items()}
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return None
    return known
