"""Bridges between dialects: one's readers with another's writers."""

from typing import NamedTuple

import orjson
from msgspec.structs import replace

from router.contract.digits import as_written, with_digits
from router.contract.errors import TooDeep
from router.contract.parts import LARGE_BYTES, write_parts
from router.contract.request import JsonObject, RequestView
from router.contract.secret import mask_keys
from router.contract.words import Dialect
from router.dialects.composer import Answer
from router.dialects.fields import as_object
from router.dialects.opaque import without_foreign
from router.dialects.spec import Translation
from router.dialects.table import SPECS
from router.dialects.translate.context import WriteContext
from router.dialects.translate.draft import Draft
from router.dialects.translate.translator import AnswerTranslator

_TOO_DEEP = "the JSON is nested too deeply to be rewritten: over 250 levels"


class Translated(NamedTuple):
    body: bytes
    dropped: tuple[str, ...]
    answer: AnswerTranslator


class Bridge(NamedTuple):
    """One direction, named `<caller>_to_<target>`."""

    caller: Dialect
    target: Dialect

    @property
    def name(self) -> str:
        return f"{self.caller}_to_{self.target}"

    def draft(self, body: JsonObject) -> Draft:
        try:
            draft = _translation(self.caller).read_draft(body)
        except (orjson.JSONEncodeError, RecursionError) as error:
            raise TooDeep(_TOO_DEEP) from error
        draft.settle()
        return draft

    def cross(self, view: RequestView, context: WriteContext, *, created: int, instructions: str = "") -> Translated:
        """Raises a `TandemError` if the target could only misunderstand the request."""
        body = with_digits(view.raw, view.body)
        if body is not view.body:
            view = replace(view, body=body)
        kept = without_foreign(view, context.target.name) if view.origins else None
        draft = self.draft(body if kept is None else {**body, SPECS[view.dialect].list_field: kept})
        if instructions:
            draft.system.append(instructions)
        target = _translation(self.target)
        written = target.write_draft(draft, context)
        options = as_object(view.body.get("stream_options"))
        answer = Answer(
            id=view.id.removeprefix("req_"),
            model=view.model,
            created=created,
            sends_usage=options.get("include_usage") is True or not view.is_streaming,
            shapes=draft.shapes,
            sends_envelopes=draft.wants_envelopes,
            sends_thoughts=draft.wants_thoughts,
            asked=view.as_sent,
        )
        composer = SPECS[self.caller].composer(answer)
        parser = target.parser(composer, context.target.name, answer.id)
        try:
            is_large = len(view.raw) > LARGE_BYTES
            raw = write_parts(written, as_written) if is_large else orjson.dumps(written, default=as_written)
        except orjson.JSONEncodeError as error:
            raise TooDeep(_TOO_DEEP) from error
        return Translated(raw, tuple(map(mask_keys, draft.dropped)), AnswerTranslator(self.caller, view.id, composer, parser))


def _translation(dialect: Dialect) -> Translation:
    translation = SPECS[dialect].translation
    if translation is None:
        raise ValueError(f"{dialect} is never bridged")
    return translation


_BRIDGED = tuple(name for name, spec in SPECS.items() if spec.translation is not None)
BRIDGES = {(caller, target): Bridge(caller, target) for caller in _BRIDGED for target in _BRIDGED if caller is not target}
