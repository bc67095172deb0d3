"""Bridges: a caller's dialect on one side, a target's on the other. No I/O.

Each dialect has one reader and one writer of requests (`from_…`, `to_…`), one reader of answers (`hear_…`) and one writer of
them (`router.dialects.compose`). A bridge is a pair of these, so six bridges are made of twelve parts.
"""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import orjson

from router.contract.errors import TooDeep
from router.contract.request import JsonObject, RequestView
from router.contract.words import Dialect
from router.dialects.bridge import from_chat, from_messages, from_responses, to_chat, to_messages, to_responses
from router.dialects.bridge.answer import BridgedAnswer
from router.dialects.bridge.draft import Draft
from router.dialects.bridge.hear_chat import ChatHearing
from router.dialects.bridge.hear_messages import MessagesHearing
from router.dialects.bridge.hear_responses import ResponsesHearing
from router.dialects.bridge.hearing import Hearing
from router.dialects.bridge.writing import Writing
from router.dialects.compose import Answer, Composer, compose
from router.dialects.fields import as_object
from router.dialects.opaque import LISTS, without_foreign

_READERS: dict[Dialect, ModuleType] = {
    Dialect.CHAT: from_chat,
    Dialect.RESPONSES: from_responses,
    Dialect.MESSAGES: from_messages,
}
_WRITERS: dict[Dialect, ModuleType] = {
    Dialect.CHAT: to_chat,
    Dialect.RESPONSES: to_responses,
    Dialect.MESSAGES: to_messages,
}
_HEARINGS: dict[Dialect, Callable[[Composer, str, str], Hearing]] = {
    Dialect.CHAT: ChatHearing,
    Dialect.RESPONSES: ResponsesHearing,
    Dialect.MESSAGES: MessagesHearing,
}
_TOO_DEEP = "the JSON is nested too deeply to be written anew: over 250 levels"


class Crossing(NamedTuple):
    """A request on the other side: its body there, what it lost, and who brings the answer back."""

    body: bytes
    dropped: tuple[str, ...]
    answer: BridgedAnswer


class Bridge(NamedTuple):
    """One way across, named `<caller>_to_<target>`."""

    caller: Dialect
    target: Dialect

    @property
    def name(self) -> str:
        return f"{self.caller}_to_{self.target}"

    def draft(self, body: JsonObject) -> Draft:
        """Read the caller's body."""
        try:
            draft: Draft = _READERS[self.caller].read(body)
        except orjson.JSONEncodeError as error:
            raise TooDeep(_TOO_DEEP) from error
        draft.settle()
        return draft

    def cross(self, view: RequestView, writing: Writing, *, created: int, instructions: str = "") -> Crossing:
        """Write a request for a target. Raises a `TandemError` where the target could only misunderstand it."""
        kept = without_foreign(view, writing.target.name) if view.origins else None
        draft = self.draft(view.body if kept is None else {**view.body, LISTS[view.dialect]: kept})
        if instructions:
            draft.system.append(instructions)
        body: JsonObject = _WRITERS[self.target].write(draft, writing)
        options = as_object(view.body.get("stream_options"))
        answer = Answer(
            id=view.id.removeprefix("req_"),
            model=view.model,
            created=created,
            sends_usage=options.get("include_usage") is True or not view.is_streaming,
            shapes=draft.shapes,
            sends_seals=draft.wants_seals,
            sends_thoughts=draft.wants_thoughts,
        )
        composer = compose(self.caller, answer)
        hearing = _HEARINGS[self.target](composer, writing.target.name, answer.id)
        try:
            raw = orjson.dumps(body)
        except orjson.JSONEncodeError as error:
            raise TooDeep(_TOO_DEEP) from error
        bridged = BridgedAnswer(self.caller, view.id, composer, hearing)
        return Crossing(raw, tuple(draft.dropped), bridged)


BRIDGES = {(caller, target): Bridge(caller, target) for caller in _READERS for target in _WRITERS if caller is not target}
