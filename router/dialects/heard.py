"""What an answer says, whatever its dialect: its texts and its calls."""

from router.contract.words import Dialect
from router.dialects.composer import Composer
from router.dialects.table import SPECS
from router.dialects.translate.translator import AnswerTranslator


def hear(dialect: Dialect, answer: bytes) -> "Heard | None":
    """What an answer says, whole or streamed. None where it is not one."""
    translation = SPECS[dialect].translation
    if translation is None:
        return None
    heard = Heard()
    reader = AnswerTranslator(dialect, "", heard, translation.parser(heard, "", ""))
    try:
        if answer.lstrip()[:1] == b"{":
            reader.whole(answer)
        else:
            reader.feed(answer)
            reader.finish()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None  # what foreign JSON of an unexpected shape can raise
    return heard


class Heard(Composer):
    """Takes an answer's texts and the ids of its calls, and writes nothing."""

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
