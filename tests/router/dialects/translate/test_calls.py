"""Tool calls over every bridge: without arguments, cut in the middle, under names and ids that not every dialect takes."""

import itertools
import json
import re

import orjson
import pytest

from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to, calls_of, crossed, events_in, frames, heard
from tests.tools.values import make_target, make_view

PAIRS = list(BRIDGES)
PATCH = "apply_patch"
HALF = '{"input": "*** Begin Patch\\n*** Delete File: a'
LONG = "mcp__" + "x" * 90
ALSO_LONG = LONG + "y"


def upstream_stream(target, pieces: list, name: str = "now", finish: str = "tools", call_id: str = "c1") -> bytes:
    """A call as a target of this dialect streams it, its arguments in these pieces."""
    match target:
        case _ if target is CHAT:
            function = [{"name": name, "arguments": ""}, *({"arguments": piece} for piece in pieces)]
            calls = [{"index": 0, **({} if i else {"id": call_id}), "function": each} for i, each in enumerate(function)]
            deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
            reason = {"tools": "tool_calls", "length": "length", "filter": "content_filter"}[finish]
            return frames(*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}) + b"data: [DONE]\n\n"
        case _ if target is MESSAGES:
            block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces if isinstance(piece, str)]
            reason = {"tools": "tool_use", "length": "max_tokens", "filter": "refusal"}[finish]
            return frames(
                {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
                {"type": "content_block_start", "index": 0, "content_block": block},
                *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
                {"type": "message_stop"},
            )
    item = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name}
    whole = "".join(piece for piece in pieces if isinstance(piece, str))
    is_cut = finish != "tools"
    status = "incomplete" if is_cut else "completed"
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(finish)
    response = {"id": "r", "status": status, "incomplete_details": {"reason": reason} if is_cut else None}
    return frames(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece} for piece in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": whole, "status": status}},
        {"type": f"response.{status}", "response": response},
    )


def upstream_whole(target, arguments: object, name: str = "now", finish: str = "tools", call_id: str = "c1") -> bytes:
    """The same in one piece. Messages have an object for it, which is closed whatever happened."""
    if target is CHAT:
        reason = {"tools": "tool_calls", "length": "length", "filter": "content_filter"}[finish]
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        return orjson.dumps({"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": reason}]})
    if target is MESSAGES:
        reason = {"tools": "tool_use", "length": "max_tokens", "filter": "refusal"}[finish]
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        return orjson.dumps({"content": [block], "stop_reason": reason})
    status = "completed" if finish == "tools" else "incomplete"
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, "status": status}
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(finish)
    return orjson.dumps({"status": status, "incomplete_details": {"reason": reason} if reason else None, "output": [item]})


def told_whole(caller, target, data: bytes, **more) -> dict:
    return json.loads(answer_to(caller, target, **more).whole(data))


def arguments_in(events: list[dict]) -> list[str]:
    return [arguments for _, _, arguments in calls_of(events)]


def custom_of(caller) -> list[dict]:
    if caller is CHAT:
        return [{"type": "custom", "custom": {"name": PATCH}}]
    return [{"type": "custom", "name": PATCH}]


def test_a_streamed_call_without_arguments_has_an_empty_object(subtests):
    for (caller, target), pieces in itertools.product(
        PAIRS, [[], [""], [" "], ["\n", "  "], ["null"], ["nu", "ll "], [None], ["{}"], ["{", "}"]]
    ):
        with subtests.test(caller=caller, target=target, pieces=pieces):
            events = heard(caller, target, upstream_stream(target, pieces))

            (arguments,) = arguments_in(events)
            assert json.loads(arguments or ("{}" if caller is MESSAGES else "")) == {}
            if caller is CHAT:
                assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
            elif caller is RESPONSES:
                deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
                (done,) = [event for event in events if event["type"] == "response.function_call_arguments.done"]
                assert json.loads("".join(deltas)) == json.loads(done["arguments"]) == {}
                assert json.loads(events[-1]["response"]["output"][0]["arguments"]) == {}
                assert events[-1]["response"]["output"][0]["status"] == "completed"


def test_a_whole_call_without_arguments_has_an_empty_object(subtests):
    for (caller, target), arguments in itertools.product(PAIRS, [None, "", "  ", "null", " null\n", "{}"]):
        with subtests.test(caller=caller, target=target, arguments=arguments):
            body = told_whole(caller, target, upstream_whole(target, arguments))

            if caller is CHAT:
                assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == "{}"
            elif caller is RESPONSES:
                assert body["output"][0]["arguments"] == "{}"
            else:
                assert body["content"][0]["input"] == {}


def test_a_call_without_arguments_in_the_history_has_an_empty_object(subtests):
    for (caller, target), arguments in itertools.product(PAIRS, ["", " ", "null", None]):
        with subtests.test(caller=caller, target=target, arguments=arguments):
            if caller is CHAT:
                calls = [{"id": "c", "type": "function", "function": {"name": "now", "arguments": arguments}}]
                body = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}]}
                body["messages"].append({"role": "tool", "tool_call_id": "c", "content": "noon"})
            elif caller is RESPONSES:
                call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": arguments}
                body = {"input": [call, {"type": "function_call_output", "call_id": "c", "output": "noon"}]}
            else:
                call = {"type": "tool_use", "id": "c", "name": "now", "input": None if arguments is None else {}}
                result = {"type": "tool_result", "tool_use_id": "c", "content": "noon"}
                messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
                body = {"max_tokens": 9, "messages": messages}

            written = json.dumps(crossed(caller, target, body)[0])

            assert ('"input": {}' if target is MESSAGES else '"arguments": "{}"') in written


def test_a_call_that_was_cut_is_never_told_as_whole(sdk, subtests):
    for (caller, target), finish, pieces in itertools.product(PAIRS, ["length", "filter"], [['{"path": "a', "b"], ["{"], []]):
        with subtests.test(caller=caller, target=target, finish=finish, pieces=pieces):
            events = heard(caller, target, upstream_stream(target, pieces, finish=finish))
            begun = "".join(pieces)

            assert arguments_in(events) == [begun]
            if caller is CHAT:
                assert events[-1]["choices"][0]["finish_reason"] == ("length" if finish == "length" else "content_filter")
            elif caller is MESSAGES:
                (last,) = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
                assert last == ("max_tokens" if finish == "length" else "refusal")
            else:
                kinds = [event["type"] for event in events]
                assert "response.function_call_arguments.done" not in kinds
                assert kinds[-1] == "response.incomplete"
                response = events[-1]["response"]
                reason = "max_output_tokens" if finish == "length" else "content_filter"
                assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})
                assert (response["output"][0]["status"], response["output"][0]["arguments"]) == ("incomplete", begun)
                (done,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
                assert done == response["output"][0]
                for event in events:
                    sdk.events[RESPONSES].validate_python(event)


@pytest.mark.parametrize("target", [CHAT, MESSAGES, RESPONSES])
def test_a_whole_answer_says_so_too(sdk, target):
    raw = upstream_whole(target, '{"path": "a', finish="length")

    if target is not CHAT:
        call = told_whole(CHAT, target, raw)["choices"][0]
        assert call["finish_reason"] == "length"
    if target is not MESSAGES:
        message = told_whole(MESSAGES, target, raw)
        assert (message["stop_reason"], message["content"][0]["input"]) == ("max_tokens", {"path": "a"})
    if target is not RESPONSES:
        response = told_whole(RESPONSES, target, raw)
        sdk.whole[RESPONSES].validate_python(response)
        assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")


def test_the_input_of_a_free_form_tool_that_was_cut_is_never_the_json_around_it(subtests):
    for (caller, target), size in itertools.product(
        [(CHAT, MESSAGES), (CHAT, RESPONSES), (RESPONSES, CHAT), (RESPONSES, MESSAGES)], range(len(HALF) + 1)
    ):
        with subtests.test(caller=caller, target=target, size=size):
            events = heard(caller, target, upstream_stream(target, [HALF[:size]], PATCH, "length"), tools=custom_of(caller))

            if caller is CHAT:
                (found,) = [
                    call["custom"]["input"]
                    for event in events
                    for choice in event["choices"]
                    for call in choice["delta"].get("tool_calls", [])
                ]
            else:
                item = events[-1]["response"]["output"][0]
                found = item["input"]
                assert (item["type"], item["status"], events[-1]["type"]) == (
                    "custom_tool_call",
                    "incomplete",
                    "response.incomplete",
                )
                assert "response.custom_tool_call_input.done" not in [event["type"] for event in events]
            assert "*** Begin Patch\n*** Delete File: a".startswith(found)


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_a_whole_call_before_the_limit_stays_whole(caller, target):
    data = upstream_stream(target, ['{"a":', "1}"], finish="length")
    data = data.replace(b'"status": "incomplete"}}', b'"status": "completed"}}')  # the item's, where items have one

    events = heard(caller, target, data)

    if caller is RESPONSES:
        assert events[-1]["response"]["output"][0]["status"] == "completed"
        assert events[-1]["response"]["status"] == "incomplete"
    elif caller is CHAT:
        assert arguments_in(events) == ['{"a":1}']


@pytest.mark.parametrize("caller", [RESPONSES, CHAT])
def test_of_two_calls_only_the_one_that_was_cut_is_incomplete(caller):
    blocks = []
    for index, piece in enumerate(["", '{"half']):
        block = {"type": "tool_use", "id": f"c{index}", "name": "f", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": piece}
        blocks.append({"type": "content_block_start", "index": index, "content_block": block})
        blocks.append({"type": "content_block_delta", "index": index, "delta": delta})
        blocks.append({"type": "content_block_stop", "index": index})
    data = frames(*blocks, {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"})

    events = heard(caller, MESSAGES, data)

    if caller is RESPONSES:
        output = events[-1]["response"]["output"]
        assert [(item["status"], item["arguments"]) for item in output] == [("completed", "{}"), ("incomplete", '{"half')]
    else:
        assert arguments_in(events) == ["{}", '{"half']


@pytest.mark.parametrize("caller", [RESPONSES, MESSAGES])
@pytest.mark.parametrize("rest", [b"", b"data: {", b"data: {broken\n\n", b"data: {broken\n\ndata: [DONE]\n\n"])
def test_a_finish_reason_is_an_end_even_if_the_line_breaks_after_it(caller, rest):
    answer = answer_to(caller, CHAT, stream=True)
    data = frames({"choices": [{"delta": {"content": "abc"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]})

    out = answer.feed(data + rest) + answer.conclude()

    last = events_in(out)[-1]["type"]
    assert last == ("response.completed" if caller is RESPONSES else "message_stop")
    assert answer.conclude() == answer.finish() == b""


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_a_stream_that_breaks_without_a_finish_reason_has_no_end(caller, target):
    answer = answer_to(caller, target, stream=True)
    answer.feed(upstream_stream(target, ["{}"])[:200].rpartition(b"\n\n")[0] + b"\n\n")

    assert answer.conclude() == b""


def with_tools(caller, *names: str, chosen: str | None = None) -> dict:
    """A request that offers these tools, has called the first, and may ask for one."""
    first = names[0]
    if caller is CHAT:
        call = {"id": "c.1", "type": "function", "function": {"name": first, "arguments": "{}"}}
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        said = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c.1", "content": "r"},
        ]
        choice = {"type": "function", "function": {"name": chosen}}
        body = {
            "messages": [{"role": "user", "content": "x"}, *said],
            "tools": tools,
            "tool_choice": choice if chosen else "auto",
        }
    elif caller is RESPONSES:
        call = {"type": "function_call", "call_id": "c.1", "name": first, "arguments": "{}"}
        tools = [{"type": "function", "name": name} for name in names]
        said = [{"role": "user", "content": "x"}, call, {"type": "function_call_output", "call_id": "c.1", "output": "r"}]
        choice = {"type": "function", "name": chosen}
        body = {"input": said, "tools": tools, "tool_choice": choice if chosen else "auto"}
    else:
        call = {"type": "tool_use", "id": "c.1", "name": first, "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c.1", "content": "r"}
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
        choice = {"type": "tool", "name": chosen} if chosen else {"type": "auto"}
        body = {"max_tokens": 9, "messages": messages, "tools": tools, "tool_choice": choice}
    return body


def names_in(body: dict) -> tuple[list[str], str, str]:
    """The names of a body: of its tools, of the call in its history, of the tool that is chosen."""
    tools = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
    choice = body["tool_choice"]
    chosen = (choice.get("name") or choice["function"]["name"]) if isinstance(choice, dict) else ""
    text = json.dumps(body.get("messages") or body.get("input"))
    (called,) = re.findall(r'"(?:arguments|input)": [^,}]*, "name": "([^"]*)"|"name": "([^"]*)", "(?:arguments|input)"', text)
    return tools, called[0] or called[1], chosen


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_long_names_are_short_at_the_target_and_whole_at_the_caller(caller, target):
    request = with_tools(caller, LONG, ALSO_LONG, "plain", chosen=LONG)
    view = make_view({**request, "stream": True}, caller)
    across = BRIDGES[caller, target].cross(view, WriteContext(make_target(speaks=frozenset({target})), "m"), created=1)

    tools, called, chosen = names_in(json.loads(across.body))

    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in tools)
    assert (len(set(tools)), tools[2]) == (3, "plain")
    assert called == chosen == tools[0]
    told = across.answer.feed(upstream_stream(target, ["{}"], tools[1])) + across.answer.finish()
    assert f'"{ALSO_LONG}"'.encode() in told
    assert tools[1].encode() not in told
    again = BRIDGES[caller, target].cross(view, WriteContext(make_target(speaks=frozenset({target})), "m"), created=1)
    assert json.loads(again.body)["tools"] == json.loads(across.body)["tools"]
    whole = BRIDGES[caller, target].cross(
        make_view(request, caller), WriteContext(make_target(speaks=frozenset({target})), "m"), created=1
    )
    assert f'"{LONG}"'.encode() in whole.answer.whole(upstream_whole(target, "{}", tools[0]))


def test_ids_that_are_alike_once_cleaned_stay_apart_with_their_results():
    items = [{"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"} for call_id in ("c.1", "c:1")]
    items += [{"type": "function_call_output", "call_id": call_id, "output": call_id} for call_id in ("c:1", "c.1")]

    body, _ = crossed(RESPONSES, MESSAGES, {"input": items})

    first, second = (block["id"] for block in body["messages"][0]["content"])
    assert first != second
    results = {block["tool_use_id"]: block["content"][0]["text"] for block in body["messages"][1]["content"]}
    assert results == {first: "c.1", second: "c:1"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_ids_that_are_alike_once_cleaned_stay_apart_in_answers(target):
    ids = [
        event["content_block"]["id"]
        for call_id in ("c.1", "c:1")
        for event in heard(MESSAGES, target, upstream_stream(target, ["{}"], call_id=call_id))
        if event["type"] == "content_block_start"
    ]

    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", call_id) for call_id in ids)
