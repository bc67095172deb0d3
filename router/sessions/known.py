"""The sessions that are remembered, and which of them a request belongs to.

In the process, bounded by count and age; what must survive a restart goes to a store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from router.contract.caller import SessionKey, record_name
from router.contract.request import RequestView
from router.contract.session import SessionState, read_state, write_state
from router.contract.signals import Turn
from router.contract.stores import SessionStore
from router.sessions.marks import mark_at
from router.sessions.records import Held, Records

if TYPE_CHECKING:
    from router.sessions.shared_records import SharedRecords

_MAX_SESSIONS, _MAX_BEGINNINGS = 4_096, 1_024
_MAX_ALIKE = 8
"""How many sessions, or message threads, that begin alike are told apart: of threads the newest."""
_SLOTS, _FIRST = range(_MAX_ALIKE), range(1)
_MAX_SECONDS = 7 * 86_400.0
_NEW = SessionState()
_Found = tuple[SessionKey, SessionState, SessionState | None]


class KnownSessions:
    """Sessions by caller and id, and message threads by how they began: a lost one is sent again whole, without its name."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.sessions: Records[SessionKey, SessionState]
        self._threads: Records[str, tuple[str, ...]]
        self.find: Callable[[RequestView, Turn, int, float, str], Awaitable[_Found]]
        """Which session a request belongs to: `find_session` among those at hand and in the store."""
        sessions = store, _NEW, _MAX_SESSIONS, record_name, read_state, write_state
        threads = store, (), _MAX_BEGINNINGS, str, _read_names, msgspec.json.encode
        if store.is_shared:
            from router.sessions.shared_records import SharedRecords  # loaded late: most routers share nothing

            shared: SharedRecords[SessionKey, SessionState] = SharedRecords(*sessions, join=_newest)
            self.sessions = shared
            self._threads = SharedRecords(*threads, join=_both)
            self.find = partial(_find_shared, shared)
        else:
            self.sessions, self._threads = Records(*sessions), Records(*threads)
            self.find = partial(find_session, self.sessions.held, self.sessions.load)

    async def find_lost_thread(self, view: RequestView, turn: Turn, messages: int, now: float) -> str:
        """The thread that a request creates again, where its client sends one whole that is no longer held here.

        It has the beginning of that one, and extends what is remembered of it. Empty for a thread that is really new.
        """
        if messages < 2 or not _begins_thread(view, turn):
            return ""
        for name in await self._threads.load(_beginning(view, turn)) or ():
            state = await self.sessions.load(SessionKey(view.caller, name))
            if (
                state is not None
                and now - state.at < _MAX_SECONDS
                and 0 < state.messages <= messages
                and mark_at(view, turn, state.messages) == state.last
            ):
                return name
        return ""

    def note_thread(self, view: RequestView, turn: Turn, now: float) -> None:
        """Remember a thread by its beginning, if this request began one."""
        if _begins_thread(view, turn):
            key, name = _beginning(view, turn), turn.session
            self._threads.update(key, lambda names: (name, *(other for other in names if other != name))[:_MAX_ALIKE], ())
            self._threads.store(key, now)

    def store_thread(self, view: RequestView, turn: Turn, now: float) -> "asyncio.Future[None] | None":
        """The write of a thread that this request began, as `Records.store` returns it."""
        return self._threads.store(_beginning(view, turn), now) if _begins_thread(view, turn) else None

    async def close(self) -> None:
        await self.sessions.close()
        await self._threads.close()
        await self._store.close()


async def find_session(
    held: Mapping[SessionKey, Held[SessionState]],
    load: Callable[[SessionKey], Awaitable[SessionState | None]],
    view: RequestView,
    turn: Turn,
    messages: int,
    now: float,
    name: str,
) -> _Found:
    """The session that a request belongs to: its key, its state, and the session whose slot it takes, if any.

    1. A session that the client names: its key and what is known of it.
    2. A guessed one, known by the caller and the person's first words: of up to 8 slots with the same words, the one
       whose conversation this one extends. Of several, the one with the same model name; else the first that goes on
       under another name.
    3. A branch, whose conversation begins alike and goes on otherwise: the next free slot, and a new state.
    4. With no slot free: the slot unused for longest, a new state, and the session that gives way.

    A session that was not used for a week gives way as well.
    """
    oldest: _Found | None = None
    renamed: _Found | None = None
    for number in _SLOTS:
        key = SessionKey(view.caller, turn.session, number)
        found = held.get(key)
        state = await load(key) if found is None else found.value
        if state is None or now - state.at >= _MAX_SECONDS:
            return renamed or (key, _NEW, state)
        if not turn.is_guessed:
            return key, state, None
        if messages >= state.messages and mark_at(view, turn, state.messages) == state.last:
            if state.name == name:
                return key, state, None
            if messages > state.messages:
                renamed = renamed or (key, state, None)
        if oldest is None or oldest[2] is None or state.at < oldest[2].at:
            oldest = key, _NEW, state
    assert oldest is not None
    return renamed or oldest


async def _find_shared(
    sessions: "SharedRecords[SessionKey, SessionState]",
    view: RequestView,
    turn: Turn,
    messages: int,
    now: float,
    name: str,
) -> _Found:
    """Find the session in a shared store, with one question for all sessions that the request may belong to."""
    keys = [SessionKey(view.caller, turn.session, number) for number in (_SLOTS if turn.is_guessed else _FIRST)]
    return await find_session(await sessions.load_all(keys), _find_nothing, view, turn, messages, now, name)


async def _find_nothing(key: SessionKey) -> None:
    return None


def _newest(ours: SessionState, stored: SessionState) -> SessionState:
    return ours if ours.at >= stored.at else stored


def _both(ours: tuple[str, ...], stored: tuple[str, ...]) -> tuple[str, ...]:
    return (*ours, *(name for name in stored if name not in ours))[:_MAX_ALIKE]


def _begins_thread(view: RequestView, turn: Turn) -> bool:
    """Whether a request creates a message thread that is a session of its own, named after this request."""
    return view.continued is not None and turn.session.endswith(view.id)


def _beginning(view: RequestView, turn: Turn) -> str:
    first = mark_at(view, turn, min(1, len(view.conversation.items)))
    return record_name(SessionKey(view.caller, f"thread\0{first}"))


def _read_names(stored: bytes) -> tuple[str, ...] | None:
    try:
        return msgspec.json.decode(stored, type=tuple[str, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
