"""The turns before this one, out of the request itself: how much work each of the last three was."""

from functools import lru_cache

from router.contract.request import Conversation
from router.contract.signals import FinishedTurn, SessionHistory
from router.sessions.clients import BOOKKEEPING_TOOLS, EDIT_MARKS, Client
from router.sessions.words import opening_words

_LAST_TURNS = 3
_MAX_WORDS = 400
_LOOK_BACK = 2_000
"""Messages. A session longer than this is long in any case."""


def read_history(conversation: Conversation, client: Client) -> SessionHistory:
    """Walk back through the conversation. The person's last words begin the running turn, which is not history yet."""
    found: list[FinishedTurn] = []
    turns = calls = edits = 0
    is_running = True
    peeks = conversation.peeks
    for index in range(len(peeks) - 1, max(-1, len(peeks) - 1 - _LOOK_BACK), -1):
        role, called = peeks[index]
        if called:
            for name in called:
                if name not in BOOKKEEPING_TOOLS:
                    calls += 1
                    edits += is_edit(name)
        elif role == "user":
            words = opening_words(conversation[index], client)
            if not words:
                continue
            if is_running:
                is_running = False
            else:
                turns += 1
                if len(found) < _LAST_TURNS:
                    found.append(FinishedTurn(words[:_MAX_WORDS], calls, edits))
            calls = edits = 0
    return SessionHistory(turns, tuple(reversed(found)))


@lru_cache(maxsize=1024)
def is_edit(name: str) -> bool:
    """Whether a tool of this name changes files."""
    lower = name.lower()
    return any(mark in lower for mark in EDIT_MARKS)
