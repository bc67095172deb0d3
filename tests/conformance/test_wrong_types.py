"""A field of a wrong type is never read as something else: it is refused, or the target gets it as it is, or it is dropped.

The fields and their types are those of the SDKs, which are generated from the published descriptions.
"""

import json
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import anthropic.types.message_create_params as messages_params
import openai.types.chat.completion_create_params as chat_params
import openai.types.completion_create_params as completions_params
import openai.types.responses.response_create_params as responses_params
import pytest
from typing_extensions import get_type_hints, is_typeddict

from tests.conformance.reading import check
from tests.conformance.road import PATHS, Tandem
from tests.conformance.test_answers import request_for
from tests.tools.loop_clock import jumping_clock

VALUES = {"text": "x", "number": 1.5, "whole": 7, "flag": True, "object": {"x": 1}, "list": ["x"]}
PLAIN = {str: {"text"}, bool: {"flag"}, int: {"whole"}, float: {"number", "whole"}, object: set(VALUES)}
PARAMS = {
    "chat": chat_params.CompletionCreateParamsNonStreaming,
    "responses": responses_params.ResponseCreateParamsNonStreaming,
    "messages": messages_params.MessageCreateParamsNonStreaming,
    "completions": completions_params.CompletionCreateParamsNonStreaming,
}
COMMON = {"model", "stream", "stream_options", "temperature", "top_p"}
READ_HERE = {
    "chat": COMMON | {"messages", "tools"},
    "responses": COMMON | {"input", "tools", "previous_response_id", "store", "background"},
    "messages": COMMON | {"messages", "tools"},
    "completions": COMMON | {"prompt"},
}
"""What the router acts on by itself, whichever target serves: always refused."""
ROADS = [
    *((dialect, upstream) for dialect in PATHS for upstream in PATHS),
    ("completions", "chat"),
]


def kinds_of(annotation: Any) -> set[str]:
    """The kinds of JSON that a type takes, besides null."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    if is_typeddict(annotation):
        return {"object"}
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Required, NotRequired):
        return kinds_of(inner[0])
    if origin in (Union, types.UnionType):
        return set().union(*(kinds_of(option) for option in inner if option is not type(None)))
    if origin is Literal:
        return set().union(*(kinds_of(type(value)) for value in inner))
    if origin is dict:
        return {"object"}
    assert origin in (list, Iterable, Sequence) or origin.__name__ == "SequenceNotStr", annotation
    return {"list"}


def wrong_values(dialect: str) -> Iterator[tuple[str, object]]:
    """Every field of a dialect, with each kind of value that it does not take."""
    for name, annotation in get_type_hints(PARAMS[dialect], include_extras=True).items():
        for kind in sorted(VALUES.keys() - kinds_of(annotation)):
            yield name, VALUES[kind]


@pytest.mark.parametrize(("dialect", "upstream"), ROADS)
@jumping_clock
async def test_a_field_of_a_wrong_type_is_refused_or_sent_on_as_it_is_or_dropped(dialect, upstream, subtests):
    usual = {"model": "auto", "prompt": "x"} if dialect == "completions" else request_for(dialect, "text", streams=False)
    tandem = Tandem(upstream)
    for name, value in wrong_values(dialect):
        with subtests.test(field=name, value=value):
            tandem.sent.clear()
            reply = await tandem.call(PATHS.get(dialect, "/v1/completions"), {**usual, name: value})

            if reply.status == 400:
                check("chat" if dialect == "completions" else dialect, "Error", reply.json)
                assert name in reply.json["error"]["message"]
                assert tandem.sent == []
                continue
            assert name not in READ_HERE[dialect]
            (sent,) = map(json.loads, tandem.sent)
            dropped = reply.headers.get("x-tandem-dropped", "").split(", ")
            assert reply.status == 200
            assert sent.get(name) == value or name in dropped


@pytest.mark.parametrize(
    "value", [*({"include_usage": VALUES[kind]} for kind in VALUES if kind != "flag"), "x", 7, True, ["x"]]
)
@pytest.mark.parametrize("dialect", ["chat", "completions"])
@jumping_clock
async def test_options_of_a_stream_of_a_wrong_type_are_refused(dialect, value):
    usual = {"model": "auto", "prompt": "x"} if dialect == "completions" else request_for(dialect, "text", streams=True)
    tandem = Tandem("chat")

    reply = await tandem.call(PATHS.get(dialect, "/v1/completions"), {**usual, "stream": True, "stream_options": value})

    assert (reply.status, tandem.sent) == (400, [])
    assert reply.json["error"]["param"].startswith("stream_options")
