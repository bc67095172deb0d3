"""By which an answer is known again when it comes back in a later history: a mark of its words, or of its calls.

Clients trim answers, and cut them into blocks of their own. So blanks do not count, and the beginning is enough.
"""

from collections.abc import Iterable
from hashlib import blake2b

from router.contract.request import Conversation
from router.contract.words import Dialect
from router.dialects.heard import hear

UNKNOWN = "?"
"""The mark of an answer that says nothing: no history has it."""
_KNOWN_CHARS = 200


def mark_said(conversation: Conversation, place: int) -> str:
    """The mark of what a model said in a history, from one place on."""
    texts: list[str] = []
    calls: list[str] = []
    for index in range(place, len(conversation.items)):
        message = conversation.messages[index]
        if message.role in ("user", "tool") or message.results:
            break
        if message.role == "assistant":
            texts += message.texts
        calls += [call.id for call in message.calls]
    return _mark(texts, calls)


def mark_answer(dialect: Dialect, answer: bytes) -> str:
    """The mark of an answer as its caller got it, whole or streamed."""
    heard = hear(dialect, answer)
    return UNKNOWN if heard is None else _mark(heard.texts, heard.calls)


def _mark(texts: Iterable[str], calls: Iterable[str]) -> str:
    said = "".join("".join(texts).split())[:_KNOWN_CHARS] or "\0".join(calls)
    return blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest() if said else UNKNOWN
