"""Every field of a request, with a value of every type: what is translated is right or refused by its name, never nonsense."""

import copy
import itertools
import json
from collections.abc import Iterator

import pytest

from router.contract.errors import BadRequest
from router.contract.words import Operation
from router.dialects.translate.bridges import BRIDGES
from router.responses.compact import write_compaction
from router.sessions.turns import read_turn
from tests.router.responses.kept import restore
from tests.tools.bridging import CHAT, MESSAGES, PICTURE, RESPONSES, SCHEMA, crossed
from tests.tools.values import make_view

GONE = object()
ODD = {
    "null": None, "text": "odd", "blank": "", "number": 5, "fraction": 0.5, "true": True, "list": [], "of": [5],
    "object": {},
}  # fmt: skip
ODD["gone"] = GONE
PIXEL = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PAPER = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
FULL = {
    CHAT: {
        "messages": [
            {"role": "system", "content": "Rules.", "name": "boss"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "high"}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "refusal": "no",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "done"}]},
            {"role": "assistant", "function_call": {"name": "old", "arguments": "{}"}},
            {"role": "function", "name": "old", "content": "aged"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA, "strict": True}},
            {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"definition": "x"}}}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        "stop": ["a"],
        "metadata": {"a": "b"},
        "user": "u",
        "reasoning_effort": "high",
        "verbosity": "low",
        "prompt_cache_key": "k",
        "service_tier": "auto",
        "max_tokens": 9,
    },
    RESPONSES: {
        "instructions": "Rules.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": PICTURE, "detail": "high"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "c1", "namespace": "mcp", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "found"}]},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
            {"type": "local_shell_call", "call_id": "c3", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "c3", "output": "a"},
            {"type": "apply_patch_call", "call_id": "c4", "operation": {"type": "delete"}},
            {"type": "apply_patch_call_output", "call_id": "c4", "output": "ok"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so", "annotations": []}]},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
            {"type": "additional_tools", "tools": [{"type": "function", "name": "late", "parameters": SCHEMA}]},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "name": "look", "description": "d", "parameters": SCHEMA, "strict": True},
            {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "find"}]},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        "parallel_tool_calls": True,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "metadata": {"a": "b"},
        "safety_identifier": "u",
        "max_output_tokens": 99,
    },
    MESSAGES: {
        "system": [{"type": "text", "text": "Rules."}],
        "max_tokens": 99,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": PIXEL},
                    {"type": "document", "title": "t", "context": "c", "source": PAPER},
                    {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": "x"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "is_error": False,
                        "content": [{"type": "text", "text": "seen"}],
                    },
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [{"name": "look", "description": "d", "input_schema": SCHEMA, "strict": True}],
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        "stop_sequences": ["a"],
        "thinking": {"type": "enabled", "budget_tokens": 5000},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
        "metadata": {"user_id": "u"},
    },
}
FREE = {"input_schema", "parameters", "schema", "action", "operation"}
"""Objects whose inside is the caller's own."""


def paths_of(value: object, path: tuple = ()) -> Iterator[tuple]:
    """Every place in a body."""
    if path:
        yield path
    if path and path[-1] in FREE:
        return
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from paths_of(inner, (*path, key))


def with_odd(body: dict, path: tuple, odd: object) -> dict:
    changed = copy.deepcopy(body)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if odd is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = odd
    return changed


def written_path(path: tuple) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def check_sane(value: object, key: str = "") -> None:
    """What no host takes is not in a body that was written here."""
    if isinstance(value, dict):
        if key in FREE:
            return
        for name, inner in value.items():
            assert inner is not None or name == "content", name
            if name in ("name", "id", "call_id", "tool_call_id", "tool_use_id", "role", "type", "url", "image_url"):
                assert inner not in ("", [], {}), name
            if name in ("content", "output") and "tool_use_id" not in value and "output" not in value:
                assert inner != [], name
            if name in ("text", "arguments", "description") and "input" not in value:
                assert isinstance(inner, str), name
            check_sane(inner, name)
    elif isinstance(value, list):
        for inner in value:
            check_sane(inner)


@pytest.mark.parametrize(("caller", "target"), list(BRIDGES))
def test_the_request_that_is_changed_crosses_as_it_is(caller, target):
    check_sane(crossed(caller, target, FULL[caller])[0])


def test_an_odd_value_in_any_field_crosses_soundly_or_is_refused_by_the_fields_name(subtests):
    for (caller, target), kind in itertools.product(list(BRIDGES), ODD):
        with subtests.test(caller=caller, target=target, kind=kind):
            refused = 0
            for path in paths_of(FULL[caller]):
                body = with_odd(FULL[caller], path, ODD[kind])
                try:
                    read_turn(make_view(body, caller))
                    written, _ = crossed(caller, target, body)
                except BadRequest as error:
                    refused += 1
                    named = error.param or error.message
                    # What refers to a field may be refused in its place: a choice of a tool, a result of a call.
                    if any(words in error.message for words in ("tool_choice", "no matching call", "comes before this result")):
                        continue
                    # Without its type, a thing is taken for the most common kind, and lacks what that one has.
                    odd = written_path(path[:-1] if path[-1] == "type" else path)
                    assert named.startswith(odd) or odd.startswith(named), (path, named)
                else:
                    check_sane(written)
            assert refused > 5


@pytest.mark.parametrize("kind", ODD)
async def test_an_odd_value_in_any_field_of_a_compaction_is_summed_up_or_refused(kind):
    answer = json.dumps({"output": [{"type": "message", "content": [{"type": "output_text", "text": "sum"}]}]}).encode()
    refused: list[str] = []
    for path in paths_of({"input": FULL[RESPONSES]["input"]}):
        body = with_odd(FULL[RESPONSES], path, ODD[kind])
        try:
            view = await restore(make_view(body, RESPONSES, operation=Operation.COMPACT))
            read_turn(view)
        except BadRequest as error:
            refused.append(error.param or error.message)
        else:
            assert json.loads(write_compaction(view, answer, "spark"))["output"][-1]["type"] == "compaction"
    assert all(param.startswith("input") for param in refused)


def test_what_every_host_refuses_is_refused_by_its_exact_path(subtests):
    for target, (change, param) in itertools.product(
        [RESPONSES, MESSAGES],
        [
            ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
            ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"),
            ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
            ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters"),
            ({"stop": [5]}, "stop[0]"),
            ({"response_format": "json"}, "response_format"),
            ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ],
    ):
        with subtests.test(target=target, change=change, param=param):
            with pytest.raises(BadRequest) as caught:
                crossed(CHAT, target, {"messages": [{"role": "user", "content": "x"}], **change})

            assert caught.value.param == param
