"""Digests that identify a turn, and a conversation up to some message. No text is kept."""

from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter

from router.contract.request import Conversation, RequestView
from router.contract.session import SessionSnapshot
from router.contract.signals import Turn
from router.dialects.histories import learned_at
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.words import LAST_TWO, opening_words

_KNOWN_WHOLE = 512
"""Longest text digested whole, in characters; of a longer one, its ends."""
_call_id, _result_id = attrgetter("id"), attrgetter("call_id")


def mark_turn(turn: Turn) -> str:
    """The digest of the ask, which every call of a tool loop repeats."""
    asked = turn.turn_id or turn.person_text or ""
    return _mark(asked) if len(asked) <= _KNOWN_WHOLE else _mark(_ends(asked))


def mark_text(asked: str) -> str:
    return _mark(_ends(asked))


@lru_cache(maxsize=256)
def _mark(text: str) -> str:
    """Cached: every call of a tool loop needs it."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def mark_reached(view: RequestView, turn: Turn, session: SessionSnapshot) -> str:
    """The conversation with this request. A repeated one has the mark by which it was found."""
    last, messages = session.state.last, session.messages
    return last if last and session.state.messages == messages else mark_at(view, turn, messages)


def mark_at(view: RequestView, turn: Turn, count: int) -> str:
    """The conversation after `count` messages: the last of them, and the answer before it.

    Kept with a known beginning of just these messages, since a tool loop's next call needs it again.
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
    """Only words a person typed count."""
    client, messages = BY_NAME.get(client_name, UNKNOWN_CLIENT), conversation.messages
    parts: list[str] = []
    for index in range(count)[LAST_TWO]:
        message = messages[index]
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
    return text if len(text) <= _KNOWN_WHOLE else f"{text[:256]}{text[-256:]}{len(text)}"
