"""The measure itself: it finds what is wrong, and only that."""

import pytest

from tests.conformance.measure import find_faults, shapes_of
from tests.conformance.published import find_differences, is_known_event
from tests.conformance.test_wrong_types import PARAMS, wrong_values

CHAT_ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "refusal": None}, "finish_reason": "stop", "logprobs": None}],
}  # fmt: skip
CALL = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def with_message(**fields: object) -> dict:
    choice = CHAT_ANSWER["choices"][0]
    return {**CHAT_ANSWER, "choices": [{**choice, "message": {**choice["message"], **fields}}]}


def test_what_fits_has_no_faults_and_may_say_more():
    assert find_faults("chat", "Answer", CHAT_ANSWER) == []
    assert find_faults("chat", "Answer", {**with_message(tool_calls=[CALL]), "new": 1}) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({**CHAT_ANSWER, "object": "text"}, "$.object: 'text' is not 'chat.completion'"),
        ({name: value for name, value in CHAT_ANSWER.items() if name != "id"}, "$.id: missing"),
        ({**CHAT_ANSWER, "created": True}, "$.created: True is not whole"),
        ({**CHAT_ANSWER, "created": -1}, "$.created: -1 is not whole"),
        ({**CHAT_ANSWER, "choices": {}}, "$.choices: not a list but {}"),
        (with_message(role="user"), "$.choices[0].message.role: 'user' is not 'assistant'"),
        (
            with_message(tool_calls=[{**CALL, "function": {"name": "f", "arguments": ""}}]),
            "$.choices[0].message.tool_calls[0].function.arguments: '' is not json",
        ),
        ([], "$: not an object but []"),
    ],
)
def test_each_fault_is_found_and_named_by_its_place(value, fault):
    assert find_faults("chat", "Answer", value) == [fault]


def test_of_several_shapes_the_one_of_the_same_type_is_meant():
    text = {"type": "output_text", "text": "a", "annotations": []}

    assert find_faults("responses", "Part", text) == ["$.logprobs: missing"]
    assert len(find_faults("responses", "Part", {"type": "picture"})) >= 2
    assert find_faults("responses", "=auto | ToolChoice", {"type": "function"}) == []


def test_a_shape_that_nobody_wrote_is_a_mistake_of_the_test():
    with pytest.raises(ValueError, match="no shape 'Nobody'"):
        find_faults("chat", "Nobody", {})


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_every_type_that_a_shape_names_exists(dialect):
    def leaves(shape):
        match shape:
            case dict():
                for inner in shape.values():
                    yield from leaves(inner)
            case list():
                for inner in shape:
                    yield from leaves(inner)
            case str():
                yield from (option.strip() for option in shape.split("|"))

    for leaf in leaves(shapes_of(dialect)):
        find_faults(dialect, leaf, object())


@pytest.mark.parametrize(
    ("dialect", "shape", "value", "fault"),
    [
        ("chat", "Answer", {**CHAT_ANSWER, "created": "1"}, "created: Input should be a valid integer"),
        ("chat", "Answer", {**CHAT_ANSWER, "service_tier": "best"}, "service_tier: Input should be 'auto'"),
        ("chat", "Error", {"error": {"message": 1, "type": "x"}}, "error.message: Input should be a valid string"),
        ("messages", "TokenCount", {"input_tokens": "7"}, "input_tokens: Input should be a valid integer"),
        ("messages", "message_delta", {"type": "message_delta", "usage": {"output_tokens": 1}}, "delta: Field required"),
    ],
)
def test_what_an_sdk_would_not_read_is_found(dialect, shape, value, fault):
    assert any(found.startswith(fault) for found in find_differences(dialect, shape, value))


def test_what_an_sdk_reads_or_has_no_type_for_is_not_a_difference():
    assert find_differences("chat", "Answer", CHAT_ANSWER) == []
    assert find_differences("responses", "Deleted", {}) == []


@pytest.mark.parametrize(
    ("dialect", "name", "is_known"),
    [
        ("responses", "response.failed", True),
        ("responses", "error", True),
        ("responses", "response.cancelled", False),
        ("messages", "ping", True),
        ("messages", "pong", False),
    ],
)
def test_an_event_is_known_where_the_sdk_knows_it(dialect, name, is_known):
    assert is_known_event(dialect, name) is is_known


@pytest.mark.parametrize("dialect", PARAMS)
def test_every_dialect_has_many_fields_to_get_wrong(dialect):
    assert len({name for name, _ in wrong_values(dialect)}) >= 15
