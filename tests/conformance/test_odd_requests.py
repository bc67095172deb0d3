"""Generated bodies, nearly valid and odd, on every route with a body: an answer in the caller's dialect, and no fault of ours."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from tests.conformance.measure import find_faults
from tests.conformance.reading import read_events
from tests.conformance.road import SIMULATED, Reply, Tandem
from tests.tools.loop_clock import JumpingLoop
from tests.tools.speech import Speech, ToolCall

ROUTES = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/completions": "chat",
    "/v1/responses/compact": "responses",
    "/v1/responses/input_tokens": "responses",
    "/v1/messages/count_tokens": "messages",
}
UPSTREAMS = ["chat", "responses", "messages", SIMULATED]
SPEECH = Speech("Hello.", (ToolCall("call_1", "look", '{"a": 1}'),), "Hm.")
LONGEST_SECONDS = 60.0

scalars = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-3, 2**70),
    some.floats(allow_nan=False, allow_infinity=False),
    some.sampled_from(["", "x", "auto", "user", "function", "text", "call_1", "look", "{}", "{", "\x00", "ü😀", "resp_1"]),
)
odd = some.recursive(
    scalars,
    lambda inner: (
        some.lists(inner, max_size=2)
        | some.dictionaries(some.sampled_from(["type", "text", "name", "id", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def mostly(usual: some.SearchStrategy) -> some.SearchStrategy:
    """What a client sends, and now and then something else in its place."""
    return some.integers(0, 11).flatmap(lambda n: odd if n == 0 else usual)


def thing(required: dict, optional: dict | None = None) -> some.SearchStrategy:
    """An object whose fields are mostly as they should be, or now and then missing."""
    fields = {name: mostly(usual) for name, usual in required.items()}
    some_more = {name: mostly(usual) for name, usual in (optional or {}).items()}
    whole = some.fixed_dictionaries(fields, optional=some_more)
    return some.integers(0, 11).flatmap(
        lambda n: some.fixed_dictionaries({}, optional={**fields, **some_more}) if n == 0 else whole
    )


words = some.sampled_from(["hi", "fix the typo", "tier: deep\nport the whole app", "", " "])
names = some.sampled_from(["look", "ping", "a b", "", "x" * 80])
ids = some.sampled_from(["call_1", "call_2", "", "a.b", "x" * 80])
kinds = some.just
schemas = some.sampled_from([{"type": "object", "properties": {}}, {"type": "object"}, {}, {"$ref": "#"}])
roles = some.sampled_from(["user", "assistant", "system", "developer", "tool", "nobody"])
picture = some.sampled_from(["data:image/png;base64,AAAA", "https://example.org/a.png", ""])

chat_part = some.one_of(
    thing({"type": kinds("text"), "text": words}), thing({"type": kinds("image_url"), "image_url": thing({"url": picture})})
)
chat_call = thing({"id": ids, "type": kinds("function"), "function": thing({"name": names, "arguments": some.just("{}")})})
chat_message = thing(
    {"role": roles, "content": words | some.lists(mostly(chat_part), max_size=2)},
    {"tool_calls": some.lists(mostly(chat_call), max_size=2), "tool_call_id": ids, "name": names},
)
chat_tool = thing(
    {"type": kinds("function"), "function": thing({"name": names}, {"parameters": schemas, "strict": some.booleans()})}
)
item = some.one_of(
    thing({"role": roles, "content": words}, {"type": kinds("message")}),
    thing({"role": roles, "content": some.lists(mostly(thing({"type": kinds("input_text"), "text": words})), max_size=2)}),
    thing({"type": kinds("function_call"), "call_id": ids, "name": names, "arguments": some.just("{}")}),
    thing({"type": kinds("function_call_output"), "call_id": ids, "output": words}),
    thing({"type": kinds("custom_tool_call"), "call_id": ids, "name": names, "input": words}),
    thing({"type": kinds("reasoning"), "id": ids, "summary": some.just([])}, {"encrypted_content": words}),
    thing({"type": some.sampled_from(["item_reference", "compaction", "additional_tools", "new_thing"])}, {"id": ids}),
)
block = some.one_of(
    thing({"type": kinds("text"), "text": words}),
    thing({"type": kinds("tool_use"), "id": ids, "name": names, "input": some.just({})}),
    thing({"type": kinds("tool_result"), "tool_use_id": ids, "content": words}),
    thing({"type": kinds("thinking"), "thinking": words, "signature": words}),
    thing(
        {
            "type": kinds("image"),
            "source": thing({"type": kinds("base64"), "media_type": kinds("image/png"), "data": kinds("AAAA")}),
        }
    ),
)
common = {
    "stream": some.booleans(),
    "temperature": some.sampled_from([0, 1, 0.5]),
    "top_p": some.just(1),
    "metadata": some.sampled_from([{}, {"a": "b"}]),
    "user": words,
    "service_tier": some.sampled_from(["auto", "default"]),
}
bodies = {
    "chat": thing(
        {"model": kinds("auto"), "messages": some.lists(mostly(chat_message), min_size=1, max_size=3)},
        {
            **common,
            "tools": some.lists(mostly(chat_tool), max_size=2),
            "tool_choice": some.sampled_from(["auto", "none", "required", {"type": "function", "function": {"name": "look"}}]),
            "max_tokens": some.integers(1, 100),
            "stop": some.sampled_from(["END", ["a", "b"]]),
            "n": some.just(1),
            "response_format": some.sampled_from([{"type": "json_object"}, {"type": "text"}, {"type": "json_schema"}]),
            "reasoning_effort": some.sampled_from(["low", "high"]),
            "stream_options": some.just({"include_usage": True}),
        },
    ),
    "responses": thing(
        {"model": kinds("auto"), "input": words | some.lists(mostly(item), min_size=1, max_size=4)},
        {
            **common,
            "instructions": words,
            "tools": some.lists(mostly(thing({"type": kinds("function"), "name": names}, {"parameters": schemas})), max_size=2),
            "tool_choice": some.sampled_from(["auto", "none", "required", {"type": "function", "name": "look"}]),
            "max_output_tokens": some.integers(1, 100),
            "text": some.sampled_from([{"format": {"type": "json_object"}}, {"verbosity": "low"}, {}]),
            "reasoning": some.sampled_from([{"effort": "low"}, {"summary": "auto"}, {}]),
            "include": some.sampled_from([[], ["reasoning.encrypted_content"]]),
            "previous_response_id": words,
            "store": some.booleans(),
            "truncation": some.sampled_from(["auto", "disabled"]),
        },
    ),
    "messages": thing(
        {
            "model": kinds("auto"),
            "max_tokens": some.integers(1, 100),
            "messages": some.lists(
                mostly(thing({"role": roles, "content": words | some.lists(mostly(block), max_size=3)})), min_size=1, max_size=3
            ),
        },
        {
            **common,
            "system": words | some.lists(mostly(thing({"type": kinds("text"), "text": words})), max_size=2),
            "tools": some.lists(mostly(thing({"name": names, "input_schema": schemas})), max_size=2),
            "tool_choice": some.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "look"}]),
            "stop_sequences": some.just(["END"]),
            "thinking": some.sampled_from([{"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1_024}]),
        },
    ),
}
completions = thing({"model": kinds("auto"), "prompt": words}, {**common, "suffix": words, "max_tokens": some.integers(1, 9)})


async def _ask(upstream: str, path: str, body: object) -> tuple[Reply, float]:
    began = asyncio.get_running_loop().time()
    reply = await Tandem(upstream, SPEECH).call(path, body)
    return reply, asyncio.get_running_loop().time() - began


def check_answer(upstream: str, path: str, body: object) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        reply, seconds = runner.run(_ask(upstream, path, body))

    dialect = ROUTES[path]
    assert reply.status < 500, reply.body
    assert seconds < LONGEST_SECONDS
    assert reply.is_whole
    if reply.status != 200:
        assert find_faults(dialect, "Error", reply.json) == []
    elif reply.headers["content-type"].startswith("text/event-stream"):
        if path != "/v1/completions":
            read_events(dialect, reply.body)
    else:
        assert isinstance(reply.json, dict)


def body_for(path: str) -> some.SearchStrategy:
    return completions if path == "/v1/completions" else bodies[ROUTES[path]]


# A quarter of the profile's: 28 tests share them.
QUICK = settings(
    max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@pytest.mark.parametrize("path", list(ROUTES))
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_generated_body_gets_an_answer_or_a_refusal_in_its_dialect(upstream, path):
    @QUICK
    @given(body_for(path))
    def hold(body):
        check_answer(upstream, path, body)

    hold()


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages/count_tokens", {"model": "auto", "messages": [{}], "stream": True}),
        ("/v1/responses/compact", {"model": "auto", "input": [{"type": "function_call_output", "call_id": [], "output": "x"}]}),
        ("/v1/responses", {"model": "auto", "input": [], "tool_choice": {"type": None}, "stream": True}),
        ("/v1/responses", {"model": "auto", "input": "x", "tools": [{"type": "function", "name": None}], "stream": True}),
        ("/v1/responses", {"model": "auto", "input": "x", "metadata": 5, "text": {"format": {"type": 5}}, "stream": True}),
    ],
)
def test_what_was_found_once_is_answered_well(upstream, path, body):
    check_answer(upstream, path, body)


@pytest.mark.parametrize("path", list(ROUTES))
@given(raw=some.binary(max_size=40) | odd.map(lambda value: json.dumps(value).encode()))
@example(raw=b'{"model": "auto", "input": "x", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1e400}')
@QUICK
def test_bytes_that_are_no_request_are_refused(path, raw):
    check_answer("chat", path, raw)
