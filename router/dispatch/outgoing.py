"""A request as one target is to get it: its own bytes where the dialect is the same, written anew where it is not."""

import time
from dataclasses import dataclass
from typing import NamedTuple

from router.contract.relay import Adapter
from router.contract.request import RequestView
from router.contract.target import Target
from router.contract.words import Dialect
from router.dialects.fitting import Fit, fields_to_change
from router.dialects.splice import replace_model
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from router.dialects.translate.translator import AnswerTranslator


@dataclass(frozen=True, slots=True)
class Reachable:
    """A target with the adapter that reaches it, the model's name there, and how requests are made to fit it."""

    target: Target
    adapter: Adapter
    model: str
    fit: Fit


class Outgoing(NamedTuple):
    """What goes out, what it lost on the way, and who translates the answer, if anyone must."""

    dialect: Dialect
    body: bytes
    dropped: tuple[str, ...]
    answer: AnswerTranslator | None = None


def prepare(view: RequestView, reachable: Reachable, prompt_tokens: int) -> Outgoing:
    """Write the body for a target. Raises a `BadRequest` where it could only misunderstand the request."""
    target, fit = reachable.target, reachable.fit
    dialect = target.dialect_for(view.dialect)
    if dialect is view.dialect:
        changes, dropped = fields_to_change(view, target, fit)
        return Outgoing(dialect, replace_model(view.raw, view.body, reachable.model, changes), dropped)
    context = WriteContext(target, reachable.model, fit.quirks, fit.efforts, prompt_tokens)
    bridge = BRIDGES[view.dialect, dialect]
    translated = bridge.cross(view, context, created=int(time.time()), instructions=fit.instructions)
    return Outgoing(dialect, translated.body, translated.dropped, translated.answer)
