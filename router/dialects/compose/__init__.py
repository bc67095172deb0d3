"""Writing an answer in a dialect, piece by piece or whole: one made here, or one from a target of another dialect."""

from router.contract.words import Dialect
from router.dialects.compose.chat import ChatComposer
from router.dialects.compose.completions import CompletionsComposer
from router.dialects.compose.messages import MessagesComposer
from router.dialects.compose.parts import Answer, ComposedCall, Composer, Finish, Shape
from router.dialects.compose.responses import ResponsesComposer

__all__ = ["Answer", "ComposedCall", "Composer", "Finish", "Shape", "compose"]


def compose(dialect: Dialect, answer: Answer) -> Composer:
    """The composer of a dialect."""
    match dialect:
        case Dialect.RESPONSES:
            return ResponsesComposer(answer)
        case Dialect.MESSAGES:
            return MessagesComposer(answer)
        case Dialect.COMPLETIONS:
            return CompletionsComposer(answer)
        case Dialect.CHAT:
            return ChatComposer(answer)
