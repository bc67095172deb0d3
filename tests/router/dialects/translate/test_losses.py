"""What a request says and another dialect has no place for is carried in another place, or named as lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import Misfit
from router.dialects.translate.bridges import BRIDGES
from tests.tools.bridging import ASK, CHAT, MESSAGES, PICTURE, RESPONSES, SCHEMA, claude, crossed, tool

OTHERS = {CHAT: (RESPONSES, MESSAGES), RESPONSES: (CHAT, MESSAGES), MESSAGES: (CHAT, RESPONSES)}
DESCRIBED = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "description": "What it is for."}}
PICTURED = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PAGES = "data:application/pdf;base64,JVBERi0="
SIGNED = {
    "id": "c",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "s"}},
}


def chat(*messages: dict, **more) -> dict:
    return {"messages": [*(messages or ASK)], **more}


def user(*parts: dict) -> dict:
    return {"role": "user", "content": [*parts]}


def said(content: object = "a", **more) -> dict:
    return {"role": "assistant", "content": content, **more}


WORDS = {"type": "text", "media_type": "text/plain", "data": "words"}
CITED = {"citations": {"enabled": True}}
BREAKPOINT = {"text": "x", "prompt_cache_breakpoint": {"a": 1}}
LOST = [
    (CHAT, chat({"role": "user", "content": "x", "name": "ann"}), "name of messages"),
    (CHAT, chat(*ASK, said(audio={"id": "au_1"}), *ASK), "audio of messages"),
    (CHAT, chat(*ASK, said(reasoning_details=[{"type": "x"}]), *ASK), "reasoning of earlier answers"),
    (CHAT, chat(*ASK, said(annotations=[{"type": "url_citation"}]), *ASK), "annotations of messages"),
    (
        CHAT,
        chat(tools=[{"type": "function", "function": {"name": "f", "description": d}} for d in "ab"]),
        "the first of two tools named f",
    ),
    (CHAT, chat(user({"type": "text", **BREAKPOINT})), "prompt_cache_breakpoint of parts"),
    (
        CHAT,
        chat(*ASK, said(None, tool_calls=[SIGNED]), {"role": "tool", "tool_call_id": "c", "content": "r"}),
        "extra_content of calls",
    ),
    (MESSAGES, claude(user({"type": "text", "text": "x", "citations": [{"a": 1}]})), "citations"),
    (MESSAGES, claude(user({"type": "document", "source": WORDS, **CITED})), "citations"),
    (
        MESSAGES,
        claude(tools=[{"name": "f", "input_schema": SCHEMA, "input_examples": [{"a": "x"}]}]),
        "input_examples of tools",
    ),
    (MESSAGES, claude(*ASK, said([{"type": "text", "text": "a"}, PICTURED]), *ASK), "images and files in assistant messages"),
    (MESSAGES, claude(user({**PICTURED, "transformations": [{"type": "crop"}]})), "transformations of parts"),
    (
        MESSAGES,
        claude(
            *ASK,
            said([{"type": "tool_use", "id": "c", "name": "f", "input": {}, "toolset_name": "t"}]),
            user({"type": "tool_result", "tool_use_id": "c", "content": "r"}),
        ),
        "toolset_name of calls",
    ),
    (
        MESSAGES,
        claude(
            user({"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}], **CITED})
        ),
        "citations",
    ),
    (
        RESPONSES,
        {"input": "x", "tools": [{"type": "namespace", "name": "m", "description": "Group.", "tools": [tool("f")]}]},
        "description of namespaces",
    ),
    (RESPONSES, {"input": [*ASK, said(phase="commentary"), *ASK]}, "phase of items"),
    (RESPONSES, {"input": "x", "tools": [{"type": "custom", "name": "f", "defer_loading": True}]}, "defer_loading of tools"),
    (RESPONSES, {"input": [user({"type": "input_text", **BREAKPOINT})]}, "prompt_cache_breakpoint of parts"),
    (RESPONSES, {"input": [user({"type": "input_file", "file_data": PAGES, "detail": "high"})]}, "detail of files"),
]


@pytest.mark.parametrize(("caller", "body", "lost"), [pytest.param(*case, id=f"{case[0]}-{case[2]}") for case in LOST])
def test_what_no_other_dialect_has_a_place_for_is_named(caller, body, lost):
    for target in OTHERS[caller]:
        _, dropped = crossed(caller, target, body)
        assert dropped == (lost,), target


def test_what_says_nothing_to_a_model_is_not_named_as_lost():
    """Who called, who created an item, what a client notes for itself: clients send these back with every turn."""
    direct, passed_on = {"caller": {"type": "direct"}}, {"internal_chat_message_metadata_passthrough": {"turn_id": "t"}}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    result = {"type": "function_call_output", "id": "fo_1", "call_id": "c", "output": "r", "status": "completed"}
    said = {"type": "output_text", "text": "a", "annotations": [], "logprobs": [{"token": "a", "logprob": -1}]}
    items = [
        {"type": "message", "role": "user", "content": "x", **passed_on},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said], "created_by": "m"},
        {**call, **direct, **passed_on},
        {**result, **direct, **passed_on},
    ]
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {}, **direct}
    answered = {"type": "tool_result", "tool_use_id": "c", "content": "r", "is_error": False}

    for target in OTHERS[RESPONSES]:
        assert crossed(RESPONSES, target, {"input": items})[1] == ()
    for target in OTHERS[MESSAGES]:
        body = claude(*ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [answered]})
        assert crossed(MESSAGES, target, body)[1] == ()


def test_a_document_that_asks_for_no_citations_loses_none():
    source = {"type": "text", "media_type": "text/plain", "data": "words"}
    document = {"type": "document", "citations": {"enabled": False}, "source": source}

    assert crossed(MESSAGES, CHAT, claude({"role": "user", "content": [document]}))[1] == ()


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_documents_title_and_context_are_told_with_its_words(target):
    for source in (
        {"type": "text", "media_type": "text/plain", "data": "the words"},
        {"type": "content", "content": [{"type": "text", "text": "the words"}]},
    ):
        document = {"type": "document", "title": "Report", "context": "From May.", "source": source}

        body, dropped = crossed(MESSAGES, target, claude({"role": "user", "content": [document]}))

        said = json.dumps(body)
        assert said.index("Report:") < said.index("From May.") < said.index("the words")
        assert dropped == ()


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_what_a_host_summed_up_in_plain_words_is_carried(target):
    said = {"role": "assistant", "content": [{"type": "compaction", "content": "So far: a parser."}]}

    body, dropped = crossed(MESSAGES, target, claude(said, *ASK))

    assert "So far: a parser." in json.dumps(body)
    assert dropped == ()


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_calls_from_before_calls_had_ids_keep_their_results(target):
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"a":"1"}'}},
        {"role": "function", "name": "look", "content": "seen"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"a":"2"}'}},
        {"role": "function", "name": "look", "content": "seen again"},
    ]

    body, dropped = crossed(CHAT, target, {"messages": history})

    if target is RESPONSES:
        items = body["input"][1:]
        assert [item["type"] for item in items] == ["function_call", "function_call_output"] * 2
        assert items[0]["call_id"] == items[1]["call_id"] != items[2]["call_id"] == items[3]["call_id"]
        assert [items[1]["output"], items[3]["output"]] == ["seen", "seen again"]
    else:
        uses = [block for message in body["messages"] for block in message["content"] if block["type"] == "tool_use"]
        results = [block for message in body["messages"] for block in message["content"] if block["type"] == "tool_result"]
        assert [use["id"] for use in uses] == [result["tool_use_id"] for result in results]
        assert uses[0]["id"] != uses[1]["id"]
    assert dropped == ()


def test_what_a_schema_is_for_goes_with_it():
    described = {"type": "json_schema", "name": "n", "schema": SCHEMA, "description": "What it is for."}

    to_responses, _ = crossed(CHAT, RESPONSES, chat(response_format=DESCRIBED))
    to_chat, _ = crossed(RESPONSES, CHAT, {"input": "x", "text": {"format": described}})
    to_messages, dropped = crossed(RESPONSES, MESSAGES, {"input": "x", "text": {"format": described}})

    assert to_responses["text"]["format"]["description"] == "What it is for."
    assert to_chat["response_format"]["json_schema"]["description"] == "What it is for."
    assert to_messages["output_config"]["format"]["schema"] == {**SCHEMA, "description": "What it is for."}
    assert dropped == ("the name of the answer's schema",)


@pytest.mark.parametrize(("detail", "lost"), [("high", ("detail of images",)), ("low", ("detail of images",)), ("auto", ())])
def test_how_closely_a_picture_is_looked_at_is_named_where_it_cannot_be_said(detail, lost):
    part = {"type": "image_url", "image_url": {"url": PICTURE, "detail": detail}}

    _, dropped = crossed(CHAT, MESSAGES, chat({"role": "user", "content": [part]}))

    assert dropped == lost


@pytest.mark.parametrize("count", [4, 5, 9])
def test_chat_hosts_get_four_stop_sequences_at_most(count):
    stops = [f"s{number}" for number in range(count)]

    body, dropped = crossed(MESSAGES, CHAT, claude(stop_sequences=stops))

    assert body["stop"] == stops[:4]
    assert dropped == (() if count == 4 else ("stop sequences after the first 4",))


@pytest.mark.parametrize("form", [{"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}])
def test_json_without_a_schema_is_asked_for_in_words_where_there_is_no_other_way(form):
    caller = CHAT if "response_format" in form else RESPONSES
    asked = (
        {"messages": [{"role": "system", "content": "Rules."}, *ASK]}
        if caller is CHAT
        else {"instructions": "Rules.", "input": "x"}
    )

    body, dropped = crossed(caller, MESSAGES, {**asked, **form})

    assert body["system"][0]["text"] == "Rules."
    assert "JSON object" in body["system"][1]["text"]
    assert dropped == ()
    other = RESPONSES if caller is CHAT else CHAT
    assert "JSON object" not in json.dumps(crossed(caller, other, {**asked, **form})[0])


def blank(caller, words: str) -> dict:
    return {
        CHAT: {"messages": [{"role": "user", "content": words}]},
        RESPONSES: {"input": words},
        MESSAGES: {"max_tokens": 9, "messages": [{"role": "user", "content": words}]},
    }[caller]


@pytest.mark.parametrize(("caller", "target"), list(BRIDGES))
@pytest.mark.parametrize("words", ["", " \n"])
def test_a_conversation_of_blanks_reaches_who_takes_it_and_is_refused_for_who_does_not(caller, target, words):
    if target is MESSAGES:
        with pytest.raises(Misfit, match="rejects empty text"):
            crossed(caller, target, blank(caller, words))
        return
    body, _ = crossed(caller, target, blank(caller, words))

    (only,) = body["messages"] if target is CHAT else body["input"]
    said = only["content"] if target is CHAT else only["content"][0]["text"]
    assert (only["role"], said) == ("user", words)


def test_a_blank_request_after_a_system_prompt_is_answered_from_that():
    body, _ = crossed(RESPONSES, MESSAGES, {"instructions": "Say hi.", "input": " "})

    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Say hi."}]}]
    assert "system" not in body


FIELDS = {
    CHAT: {
        "seed": 7, "logprobs": True, "top_logprobs": 2, "logit_bias": {"50": 1}, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "prediction": {"type": "content", "content": "x"},
        "audio": {"voice": "alloy", "format": "wav"}, "modalities": ["text", "audio"], "web_search_options": {},
        "store": True, "metadata": {"a": "b"}, "user": "u", "safety_identifier": "s", "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "service_tier": "flex", "verbosity": "low", "reasoning_effort": "low",
        "reasoning": {"max_tokens": 5}, "stop": ["x"], "temperature": 0.5, "top_p": 0.5, "max_tokens": 50,
        "max_completion_tokens": 50, "response_format": {"type": "json_object"}, "provider": {"order": ["x"]},
        "functions": [{"name": "f"}],
    },
    RESPONSES: {
        "instructions": "i", "max_output_tokens": 50, "max_tool_calls": 3, "reasoning": {"mode": "pro"},
        "text": {"verbosity": "low"}, "include": ["message.output_text.logprobs"],
        "context_management": [{"type": "compaction"}], "truncation": "auto", "service_tier": "flex",
        "prompt_cache_key": "k", "prompt_cache_options": {"ttl": "30m"}, "prompt_cache_retention": "24h",
        "safety_identifier": "s", "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 0.5, "top_logprobs": 2,
        "moderation": {}, "user": "u",
    },
    MESSAGES: {
        "system": "s", "stop_sequences": ["x"], "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "output_config": {"task_budget": {"tokens": 5}}, "service_tier": "auto", "speed": "fast",
        "metadata": {"user_id": "u"}, "container": "c", "context_management": {"edits": []}, "compaction": {},
        "mcp_servers": [{"url": "x"}], "inference_geo": "us", "diagnostics": {}, "temperature": 0.5, "top_p": 0.5,
        "top_k": 5, "max_tokens": 55,
    },
}  # fmt: skip
"""Every field of today's APIs that shapes an answer, but those of the conversation, of tools, and of how an answer is sent."""
PLAIN = {CHAT: chat(), RESPONSES: {"input": "x"}, MESSAGES: claude()}
WAYS = [(caller, target) for caller, targets in OTHERS.items() for target in targets]


@pytest.mark.parametrize(("caller", "target"), WAYS)
def test_every_field_of_an_api_changes_the_translation_or_is_named_as_lost(caller, target):
    plain, nothing = crossed(caller, target, PLAIN[caller])
    assert nothing == ()

    for name, value in FIELDS[caller].items():
        body, dropped = crossed(caller, target, {**PLAIN[caller], name: value})

        assert body != plain or dropped, name


@given(
    way=some.sampled_from(WAYS),
    name=some.text("abcdefghij_", min_size=1).map(lambda text: f"new_{text}"),
    value=some.one_of(
        some.booleans(), some.integers(), some.text(min_size=1), some.just({}), some.lists(some.none(), min_size=1)
    ),
)
def test_a_field_that_nobody_knows_yet_is_named_as_lost(way, name, value):
    _, dropped = crossed(*way, {**PLAIN[way[0]], name: value})

    assert dropped == (name[:60],)
