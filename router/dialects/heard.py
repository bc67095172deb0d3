"""The texts and calls of an answer in any dialect."""

from router.contract.words import Dialect
from router.dialects.composer import Composer
from router.dialects.table import SPECS
from router.dialects.translate.translator import AnswerTranslator

_ODD_SHAPES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Raised by foreign JSON of an unexpected shape."""


def hear(dialect: Dialect, answer: bytes) -> "Heard | None":
    """Read a whole or streamed answer; None if it is not one."""
    heard, translation = Heard(), SPECS[dialect].translation
    if translation is None:
        return None
    reader = AnswerTranslator(dialect, "", heard, translation.parser(heard, "", ""))
    try:
        if answer.lstrip()[:1] == b"{":
            reader.whole(answer)
        else:
            reader.feed(answer)
            reader.finish()
    except _ODD_SHAPES:
        return None
    return heard


class Heard(Composer):
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[str] = []

    def text(self, delta: str) -> bytes:
        self.texts.append(delta)
        return b""

    def refusal(self, delta: str) -> bytes:
        return self.text(delta)

    def begin_call(self, call_id: str, name: str) -> bytes:
        self.calls.append(call_id)
        return b""
