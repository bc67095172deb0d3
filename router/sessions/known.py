"""Remembered sessions, and which of them a request belongs to.

Kept in the process, bounded by count and age; a store keeps what must survive a restart.
"""

from collections.abc import Callable, Mapping

from router.contract.caller import SessionKey, record_name
from router.contract.request import RequestView
from router.contract.session import SessionState, read_state, write_state
from router.contract.signals import Turn
from router.contract.stores import SessionStore
from router.sessions.marks import mark_at
from router.sessions.records import Held, Records

_MAX_SESSIONS = 4_096
_MAX_ALIKE = 8
"""Sessions of one beginning that are told apart."""
_SLOTS, _FIRST = range(_MAX_ALIKE), range(1)
_MAX_SECONDS = 7 * 86_400.0
_NEW = SessionState()
_Found = tuple[SessionKey, SessionState, SessionState | None]


class KnownSessions:
    """Sessions by caller and id."""

    def __init__(self, store: SessionStore, expires_by: Callable[[], float]) -> None:
        self._store, self._expires_by = store, expires_by
        self.sessions: Records[SessionKey, SessionState]
        self.sessions = Records(store, _NEW, _MAX_SESSIONS, record_name, read_state, write_state, _newest)
        self._held: Mapping[SessionKey, Held[SessionState]] = self.sessions.held
        self._is_shared = store.is_shared

    async def find(self, view: RequestView, turn: Turn, messages: int, now: float, name: str) -> _Found:
        """Find a request's session: its key, its state, and the session whose slot it takes, if any.

        1. A session named by the client.
        2. A guessed one, by caller and the person's first words: of up to 8 slots with these words, the one whose conversation
           this one extends. Of several, the one with the same model name, else the first.
        3. A branch, whose conversation begins alike and then differs: the next free slot, and a new state.
        4. With no slot free: the least recently used slot, a new state, and the session it replaces.

        A session unused for a week is replaced as well.
        """
        held = self._held
        if self._is_shared:
            held = await self.sessions.load_all(_slots_of(view, turn))
        oldest: _Found | None
        renamed: _Found | None
        oldest = renamed = None
        for number in _SLOTS:
            key = SessionKey(view.caller, turn.session, number)
            found = held.get(key)
            state = (None if self._is_shared else await self.sessions.load(key)) if found is None else found.value
            if state is None or (now - state.at >= _MAX_SECONDS and self._has_expired(state)):
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

    def _has_expired(self, state: SessionState) -> bool:
        """Asked only of a session that looks expired: the time of day may have leapt."""
        return self._expires_by() - state.at >= _MAX_SECONDS

    async def close(self) -> None:
        await self.sessions.close()
        await self._store.close()


def _slots_of(view: RequestView, turn: Turn) -> list[SessionKey]:
    return [SessionKey(view.caller, turn.session, number) for number in (_SLOTS if turn.is_guessed else _FIRST)]


def _newest(ours: SessionState, stored: SessionState) -> SessionState:
    return ours if ours.at >= stored.at else stored
