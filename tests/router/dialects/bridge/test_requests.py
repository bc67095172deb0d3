"""Requests over every bridge: what must survive does, what cannot is named, what would mean something else is refused."""

import json

import pytest

from router.contract.errors import BadRequest, Misfit, ResponseForgotten
from router.contract.words import Dialect, Feature
from router.dialects.bridge import BRIDGES
from router.dialects.bridge.quirks import quirks_of
from router.dialects.bridge.writing import Writing
from tests.tools.values import EVERYTHING, make_target, make_view

CHAT, RESPONSES, MESSAGES = Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES
PICTURE = "data:image/png;base64,AAAA"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
OPENAI = quirks_of("https://api.openai.com/v1")
TOOL = {"name": "look", "description": "Looks.", "parameters": SCHEMA}


def crossed(caller: Dialect, target: Dialect, body: dict, **more):
    accepts = more.pop("accepts", EVERYTHING)
    writing = Writing(make_target(speaks=frozenset({target}), accepts=accepts), "real-model", **more)
    crossing = BRIDGES[caller, target].cross(make_view(body, caller), writing, created=1)
    return json.loads(crossing.body), crossing.dropped


def test_a_tool_loop_of_chat_becomes_items():
    body, dropped = crossed(
        CHAT,
        RESPONSES,
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}],
                },
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":"x"}'}},
                        {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"a":"y"}'}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "one"},
                {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
                {"role": "developer", "content": "Careful."},
            ],
            "tools": [{"type": "function", "function": {**TOOL, "strict": True}}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_completion_tokens": 77,
            "temperature": 0.5,
            "reasoning_effort": "high",
            "verbosity": "low",
            "metadata": {"k": "v"},
            "prompt_cache_key": "s1",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            "stream": True,
        },
    )

    assert dropped == ()
    assert body == {
        "model": "real-model",
        "instructions": "Be brief.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
                ],
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":"x"}'},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"a":"y"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "two"},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Careful."}]},
        ],
        "tools": [{"type": "function", **TOOL, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
        "max_output_tokens": 77,
        "temperature": 0.5,
        "reasoning": {"effort": "high"},
        "metadata": {"k": "v"},
        "prompt_cache_key": "s1",
        "store": False,
        "stream": True,
    }


def claude_request(**more) -> dict:
    return {
        "max_tokens": 64,
        "system": [{"type": "text", "text": "You are it.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "claude's"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": "x"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {"type": "text", "text": "seen"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "not there", "is_error": True},
                    {"type": "text", "text": "go on"},
                ],
            },
            {"role": "system", "content": "A reminder."},
        ],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": SCHEMA},
            {"type": "web_search_20250305", "name": "web"},
        ],
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": "u1"},
        **more,
    }


def test_a_tool_loop_of_messages_becomes_chat_with_pictures_behind_the_results():
    body, dropped = crossed(MESSAGES, CHAT, claude_request(), quirks=OPENAI)

    assert dropped == ("reasoning of earlier answers", "the tool web")
    assert body == {
        "model": "real-model",
        "messages": [
            {"role": "system", "content": "You are it."},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": '{"a":"x"}'}},
                    {"id": "toolu_2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "seen"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: not there"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What the tool call toolu_1 returned:"},
                    {"type": "image_url", "image_url": {"url": PICTURE}},
                ],
            },
            {"role": "user", "content": "go on"},
            {"role": "system", "content": "A reminder."},
        ],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 64,
        "stop": ["END"],
        "reasoning_effort": "high",
        "safety_identifier": "u1",
    }


def test_a_tool_loop_of_messages_becomes_items_with_pictures_in_the_results():
    body, dropped = crossed(MESSAGES, RESPONSES, claude_request(stream=True), quirks=OPENAI)

    assert dropped == ("reasoning of earlier answers", "the tool web", "stop sequences")
    assert [item["type"] for item in body["input"]] == [
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
        "message",
    ]
    assert body["input"][4]["output"][1] == {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    assert body["input"][5]["output"] == "Error: not there"
    assert body["input"][7]["role"] == "developer"
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]


def codex_request(**more) -> dict:
    return {
        "instructions": "You are it.",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "patch it"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "openai's"},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call.1", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "call.1", "output": "Done"},
            {"type": "function_call", "call_id": "call_2", "namespace": "mcp", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_image", "image_url": PICTURE}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Later."}]},
        ],
        "tools": [
            {"type": "custom", "name": "apply_patch", "description": "Patches."},
            {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "find", "parameters": SCHEMA}]},
            {"type": "web_search"},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "prompt_cache_key": "s",
        "client_metadata": {"x": "y"},
        **more,
    }


def test_what_codex_sends_becomes_messages_whose_roles_take_turns():
    body, dropped = crossed(RESPONSES, MESSAGES, codex_request())

    assert dropped == ("reasoning of earlier answers", "the tool web_search", "prompt_cache_key")
    assert body["system"] == [{"type": "text", "text": "You are it."}, {"type": "text", "text": "Rules."}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "apply_patch", "input": {"input": "*** Begin"}}
    ]
    assert body["messages"][2]["content"][0]["tool_use_id"] == "call_1"
    assert body["messages"][3]["content"][0]["name"] == "mcp__find"
    result, reminder = body["messages"][4]["content"]
    assert result["content"] == [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]
    assert reminder["text"] == "<system-reminder>\nLater.\n</system-reminder>"
    assert [tool["name"] for tool in body["tools"]] == ["apply_patch", "mcp__find"]
    assert body["output_config"] == {"effort": "max"}
    assert body["thinking"] == {"type": "adaptive"}
    assert body["max_tokens"] > 0


def test_what_codex_sends_becomes_chat():
    body, _ = crossed(RESPONSES, CHAT, codex_request(stream=True))

    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
        "system",
    ]
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"input":"*** Begin"}'
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "xhigh"


def test_chat_becomes_messages_with_the_limit_that_they_ask_for():
    body, dropped = crossed(
        CHAT,
        MESSAGES,
        {
            "messages": [{"role": "user", "content": "x"}],
            "stop": "END",
            "max_tokens": 5,
            "seed": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            "user": "u",
        },
    )

    assert dropped == ("seed",)
    assert body == {
        "model": "real-model",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
    }


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_an_allow_list_leaves_only_the_tools_that_it_names(target):
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]}

    body, _ = crossed(RESPONSES, target, codex_request(tool_choice=choice))

    names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
    assert names == ["apply_patch"]
    assert body["tool_choice"] in ("required", {"type": "any"})


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_a_forced_tool_that_cannot_be_offered_is_refused(target):
    with pytest.raises(Misfit, match="web_search"):
        crossed(RESPONSES, target, codex_request(tool_choice={"type": "web_search"}))


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_several_answers_at_once_are_refused(target):
    with pytest.raises(Misfit, match="n: only 1"):
        crossed(CHAT, target, {"messages": [{"role": "user", "content": "x"}], "n": 2})


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_a_result_without_its_call_and_an_unknown_role_are_refused_naming_them(target):
    orphan = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c9", "content": "?"}]

    with pytest.raises(BadRequest, match="c9"):
        crossed(CHAT, target, {"messages": orphan})
    with pytest.raises(BadRequest, match=r"messages\[0\].role"):
        crossed(CHAT, target, {"messages": [{"role": "narrator", "content": "x"}]})


def test_a_target_without_reasoning_is_asked_for_none():
    for target in (CHAT, MESSAGES):
        body, dropped = crossed(RESPONSES, target, codex_request(), accepts=EVERYTHING - {Feature.REASONING})
        assert not body.keys() & {"reasoning_effort", "thinking", "output_config"}
        assert "reasoning effort" in dropped


def test_effort_is_said_in_the_configs_own_words():
    body, _ = crossed(RESPONSES, CHAT, codex_request(), efforts={"xhigh": "high"})

    assert body["reasoning_effort"] == "high"


def test_hosts_differences_are_obeyed():
    body, dropped = crossed(RESPONSES, CHAT, codex_request(max_output_tokens=9), quirks=quirks_of("https://api.cerebras.ai/v1"))

    assert body["max_completion_tokens"] == 9
    assert not body.keys() & {"max_tokens", "prompt_cache_key"}
    assert "prompt_cache_key" in dropped


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1/", "max_completion_tokens"),
        ("https://api.openai.com.evil.example/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ],
)
def test_a_host_is_known_by_its_whole_name_or_its_end(address, field):
    assert quirks_of(address).limit_field == field


def test_words_between_calls_and_their_results_stand_behind_the_results_in_chat():
    call, output = {"type": "function_call", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "output": "x"}
    items = [
        {"role": "user", "content": "go"},
        {**call, "call_id": "a"},
        {**call, "call_id": "b"},
        {"role": "developer", "content": "The user is typing."},
        {**output, "call_id": "a"},
        {"role": "user", "content": "hurry"},
        {**output, "call_id": "b"},
        {"role": "user", "content": "well?"},
    ]

    body, _ = crossed(RESPONSES, CHAT, {"input": items})

    # A chat host refuses calls that are not followed by all of their results at once.
    assert [(line["role"], line.get("tool_call_id") or line["content"]) for line in body["messages"]] == [
        ("user", "go"),
        ("assistant", None),
        ("tool", "a"),
        ("tool", "b"),
        ("system", "The user is typing."),
        ("user", "hurry"),
        ("user", "well?"),
    ]


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_an_earlier_answer_that_a_target_cannot_know_is_refused_so_that_its_caller_sends_it(target):
    with pytest.raises(ResponseForgotten, match="previous_response_id"):
        crossed(RESPONSES, target, {"input": "again", "previous_response_id": "resp_1"})


@pytest.mark.parametrize(("caller", "target"), list(BRIDGES))
def test_every_captured_request_crosses_with_its_words_and_calls(shared, caller, target):
    """What eleven real clients sent reaches the other side: each text of the person's, each call beside its result."""
    paths = {CHAT: "chat/completions", RESPONSES: "/responses", MESSAGES: "/v1/messages"}
    seen = 0
    for file in sorted((shared / "wire").glob("*/*.json")):
        capture = json.loads(file.read_text())
        body = capture.get("body")
        path = capture.get("path", "").partition("?")[0]
        if capture.get("method") != "POST" or not path.endswith(paths[caller]) or not isinstance(body, dict):
            continue
        if body.get("previous_response_id"):
            continue
        seen += 1
        written, _ = crossed(caller, target, {**body, "model": "auto"})
        typed = capture.get("user_text")
        if typed:
            assert json.dumps(typed)[1:-1] in json.dumps(written), file.name
        calls = json.dumps(body).count('"tool_use"') + json.dumps(body).count('"function_call"')
        if calls and caller is not CHAT:
            assert json.dumps(written).count('"tool_use"' if target is MESSAGES else '"arguments"') >= 1, file.name

    assert seen >= 10
