"""Holds values against the types of OpenAI's and Anthropic's own SDKs, which are generated from the published descriptions.

Values are read strictly: no text for a number, no word outside a closed list, no event that an SDK does not know. The SDKs take
a missing field for null; what must be there is in `shapes/`.
"""

import json
from functools import cache
from typing import Annotated, Any, get_args, get_origin

import anthropic.types
import openai.types.chat
import openai.types.responses
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

_REFUSAL = create_model("_REFUSAL", error=(openai.types.ErrorObject, ...))
_PUBLISHED: dict[str, dict[str, Any]] = {
    "chat": {
        "Answer": openai.types.chat.ChatCompletion,
        "Chunk": openai.types.chat.ChatCompletionChunk,
        "Completion": openai.types.Completion,
        "Error": _REFUSAL,
        "Model": openai.types.Model,
    },
    "responses": {
        "Answer": openai.types.responses.Response,
        "Error": _REFUSAL,
        "InputTokens": openai.types.responses.InputTokenCountResponse,
        "Items": ResponseItemList,
    },
    "messages": {
        "Answer": anthropic.types.Message,
        "Error": anthropic.types.ErrorResponse,
        "Model": anthropic.types.ModelInfo,
        "TokenCount": anthropic.types.MessageTokensCount,
    },
}
_EVENTS = {"responses": openai.types.responses.ResponseStreamEvent, "messages": anthropic.types.RawMessageStreamEvent}
_ELSEWHERE = {"ping", "error"}
"""Events of Messages that Anthropic's SDK reads, and has no type for."""


def _classes_in(union: Any) -> list[type[BaseModel]]:
    if get_origin(union) is Annotated:
        return _classes_in(get_args(union)[0])
    return [each for option in get_args(union) for each in _classes_in(option)] or [union]


@cache
def events_of(dialect: str) -> dict[str, type[BaseModel]]:
    """The events that an SDK knows, by type."""
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in _classes_in(_EVENTS[dialect])}


@cache
def _type_of(dialect: str, shape: str) -> TypeAdapter[Any] | None:
    kind = _PUBLISHED[dialect].get(shape)
    if kind is None and dialect in _EVENTS:
        kind = events_of(dialect).get(shape)
    return None if kind is None else TypeAdapter(kind)


def find_differences(dialect: str, shape: str, value: object) -> list[str]:
    """Where a value differs from what its API's SDK reads; nothing for a shape that the SDK has no type for."""
    kind = _type_of(dialect, shape)
    if kind is None:
        return []
    try:
        kind.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
    return []


def is_known_event(dialect: str, name: str) -> bool:
    return name in events_of(dialect) or (dialect == "messages" and name in _ELSEWHERE)
