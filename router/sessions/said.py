"""By which an answer is known again when it comes back in a later history: a mark of its words, or of its calls.

Clients trim answers, and cut them into blocks of their own. So blanks do not count, and the beginning is enough.
"""

from collections.abc import Iterable
from hashlib import blake2b

from router.contract.request import Conversation, JsonObject
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.composer import Finish
from router.dialects.table import SPECS
from router.dialects.translate.translator import AnswerTranslator

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
    translation = SPECS[dialect].translation
    if translation is None:
        return UNKNOWN
    heard = _Heard()
    reader = AnswerTranslator(dialect, "", heard, translation.parser(heard, "", ""))
    try:
        if answer.lstrip()[:1] == b"{":
            reader.whole(answer)
        else:
            reader.feed(answer)
            reader.finish()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return UNKNOWN  # what foreign JSON of an unexpected shape can raise
    return _mark(heard.texts, heard.calls)


def _mark(texts: Iterable[str], calls: Iterable[str]) -> str:
    said = "".join("".join(texts).split())[:_KNOWN_CHARS] or "\0".join(calls)
    return blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest() if said else UNKNOWN


class _Heard:
    """Takes an answer's texts and the ids of its calls, and writes nothing."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[str] = []

    def open(self) -> bytes:
        return b""

    def text(self, delta: str) -> bytes:
        self.texts.append(delta)
        return b""

    def refusal(self, delta: str) -> bytes:
        return self.text(delta)

    def reasoning(self, delta: str) -> bytes:
        return b""

    def envelope(self, envelope: str) -> bytes:
        return b""

    def begin_call(self, call_id: str, name: str) -> bytes:
        self.calls.append(call_id)
        return b""

    def arguments(self, delta: str) -> bytes:
        return b""

    def end_call(self, *, is_cut: bool = False) -> bytes:
        return b""

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        return b""

    def beat(self) -> bytes:
        return b""

    def fail(self, status: int, code: str, message: str) -> bytes:
        return b""

    def whole(self) -> JsonObject:
        return {}
