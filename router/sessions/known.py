"""The sessions that are remembered, and which of them a request belongs to.

In the process, bounded by count and age; what must survive a restart is handed to a store.
"""

from collections import OrderedDict
from functools import lru_cache
from hashlib import blake2b

from router.contract.request import RequestView
from router.contract.session import SessionSnapshot, SessionState, read_state
from router.contract.signals import Turn
from router.contract.stores import SessionStore
from router.sessions.marks import mark_at
from router.sessions.threads import ThreadBeginnings

_MAX_SESSIONS = 4_096
_ALIKE = range(1, 9)
"""So many sessions that begin alike are told apart."""
_LONGEST_SECONDS = 7 * 86_400.0
_NEW = SessionState()


class KnownSessions:
    """Sessions by caller and id. The longest unused is forgotten first."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: OrderedDict[str, SessionState] = OrderedDict()
        self._threads = ThreadBeginnings(store)

    async def find(
        self, view: RequestView, turn: Turn, messages: int, now: float, name: str
    ) -> tuple[str, SessionState, SessionState | None]:
        """The session that a request belongs to: its key, its state, and the session whose slot it takes, if any.

        1. A session that the client names: its key and what is known of it.
        2. A guessed one, known by the caller and the person's first words: of up to 8 slots with the same words, the one
           whose conversation this one extends. Of several, the one with the same model name; else the first that goes on
           under another name.
        3. A branch, whose conversation begins alike and goes on otherwise: the next free slot, and a new state.
        4. With no slot free: the slot unused for longest, a new state, and the session that gives way.
        """
        base = key = oldest_key = f"{view.caller.name}\0{turn.session}"
        oldest: SessionState | None = None
        renamed: tuple[str, SessionState] | None = None
        for number in _ALIKE:
            state = self._known.get(key)
            if state is None or now - state.at >= _LONGEST_SECONDS:
                state = await self._load(key, now)
            if not turn.is_guessed:
                return key, state or _NEW, None
            if state is None:
                return (*renamed, None) if renamed else (key, _NEW, None)
            if messages >= state.messages and mark_at(view, turn, state.messages) == state.last:
                if state.name == name:
                    return key, state, None
                if messages > state.messages:
                    renamed = renamed or (key, state)
            if oldest is None or state.at < oldest.at:
                oldest_key, oldest = key, state
            key = f"{base}\0{number}"
        return (*renamed, None) if renamed else (oldest_key, _NEW, oldest)

    async def find_lost_thread(self, view: RequestView, turn: Turn, messages: int, now: float) -> str:
        """The thread that a request creates anew, where its client sends one again whole that was held here no longer.

        It has the beginning of that one, and extends what is remembered of it. Empty for a thread that is really new.
        """
        if messages < 2 or not _begins_thread(view, turn):
            return ""
        for name in await self._threads.find(_beginning(view, turn)):
            key = f"{view.caller.name}\0{name}"
            state = self._known.get(key) or await self._load(key, now)
            if state and 0 < state.messages <= messages and mark_at(view, turn, state.messages) == state.last:
                return name
        return ""

    def note_thread(self, view: RequestView, turn: Turn, now: float) -> None:
        """Remember a thread by its beginning, if this request began one."""
        if _begins_thread(view, turn):
            self._threads.add(_beginning(view, turn), turn.session, now)

    async def _load(self, key: str, now: float) -> SessionState | None:
        """A session that is not at hand. One that is too old is none."""
        stored = await self._store.load(_digest(key))
        state = self._known.get(key)  # another request of the session may have come by meanwhile
        if state is None and stored and (state := read_state(stored)) is not None:
            self.put(key, state)
        if state is not None and now - state.at >= _LONGEST_SECONDS:
            del self._known[key]
            return None
        return state

    def at_hand(self, session: SessionSnapshot) -> SessionState | None:
        """The session as it is now, if anything is known of it: another may still have the slot that it takes."""
        state = self._known.get(session.key)
        return None if state is session.replaces else state

    def current(self, session: SessionSnapshot) -> SessionState:
        """The session as it is now: another of its requests may have changed it since this one looked."""
        state = self._known.get(session.key)
        return session.state if state is None or state is session.replaces else state

    def put(self, key: str, state: SessionState) -> None:
        """Remember a session as it is now."""
        known = self._known
        known[key] = state
        known.move_to_end(key)
        if len(known) > _MAX_SESSIONS:
            known.popitem(last=False)

    def keep(self, key: str, state: SessionState) -> None:
        """Remember a session as it is now, beyond this process too."""
        self.put(key, state)
        self._store.save(_digest(key), state.at, state.write())

    async def close(self) -> None:
        """Write what is left."""
        await self._store.close()


def _begins_thread(view: RequestView, turn: Turn) -> bool:
    """Whether a request creates a message thread that is a session of its own, named after this request."""
    return view.continued is not None and turn.session.endswith(view.id)


def _beginning(view: RequestView, turn: Turn) -> str:
    first = mark_at(view, turn, min(1, len(view.conversation.items)))
    return _digest(f"{view.caller.name}\0thread\0{first}")


@lru_cache(maxsize=1024)
def _digest(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()
