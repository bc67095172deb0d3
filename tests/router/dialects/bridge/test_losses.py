"""What a request must change to be taken on the other side, and what is said of it."""

import base64
import json
import time

import pytest

from router.contract.errors import BadRequest, Misfit, TooDeep
from router.contract.words import Dialect, Feature
from router.dialects.bridge import BRIDGES
from router.dialects.bridge.quirks import Quirks, quirks_of
from router.dialects.bridge.seal import seal
from router.dialects.bridge.writing import Writing
from tests.tools.values import EVERYTHING, make_target, make_view

CHAT, RESPONSES, MESSAGES = Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES
OPENAI, ANTHROPIC = quirks_of("https://api.openai.com/v1"), quirks_of("https://api.anthropic.com")
CEREBRAS, GEMINI = quirks_of("https://api.cerebras.ai/v1"), quirks_of("https://generativelanguage.googleapis.com/v1beta/openai")
ASK = [{"role": "user", "content": "hi"}]
DEEP: dict = {}
for _ in range(300):
    DEEP = {"a": DEEP}


def crossed(caller: Dialect, target: Dialect, body: dict, window_tokens: int = 128_000, accepts=EVERYTHING, **more):
    made = make_target(speaks=frozenset({target}), accepts=accepts, window_tokens=window_tokens)
    crossing = BRIDGES[caller, target].cross(make_view(body, caller), Writing(made, "m", **more), created=1)
    return json.loads(crossing.body), crossing.dropped


def claude(*messages: dict, **more) -> dict:
    return {"max_tokens": 99, "messages": [*(messages or ASK)], **more}


def tool(name: str, **more) -> dict:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, **more}


def test_a_long_name_of_the_user_is_hashed_and_goes_only_where_it_is_taken():
    body = claude(metadata={"user_id": "{" + "x" * 150 + "}"})

    known, lost = crossed(MESSAGES, CHAT, body, quirks=OPENAI)
    again, _ = crossed(MESSAGES, RESPONSES, body, quirks=OPENAI)
    other, dropped = crossed(MESSAGES, CHAT, body)

    assert len(known["safety_identifier"]) == 64
    assert known["safety_identifier"] == again["safety_identifier"]
    assert lost == ()
    assert "safety_identifier" not in other
    assert dropped == ("safety_identifier",)


def test_a_tier_of_service_goes_only_to_the_host_that_defines_it():
    body = {"input": "x", "service_tier": "priority"}

    assert crossed(RESPONSES, CHAT, body, quirks=OPENAI)[0]["service_tier"] == "priority"
    assert crossed(RESPONSES, CHAT, body)[1] == ("service_tier",)


@pytest.mark.parametrize(
    ("caller", "body"),
    [
        (RESPONSES, {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}),
        (MESSAGES, claude(tools=[{"type": "web_search_20250305", "name": "web_search"}], tool_choice={"type": "any"})),
        (
            RESPONSES,
            {"input": "x", "tools": [tool("f")], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}},
        ),
    ],
)
def test_a_tool_that_must_be_called_when_none_is_left_is_a_misfit(caller, body):
    with pytest.raises(Misfit, match="tool_choice"):
        crossed(caller, CHAT, body)


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "f"}, {"name": "f"}, "sometimes", {"type": "function"}])
def test_a_choice_of_an_unknown_shape_is_refused_naming_the_field(choice):
    tools = [{"type": "function", "function": {"name": "f"}}]

    with pytest.raises(BadRequest, match="tool_choice"):
        crossed(CHAT, MESSAGES, {"messages": ASK, "tools": tools, "tool_choice": choice})


def test_thinking_is_left_out_beside_a_tool_that_must_be_called():
    body, dropped = crossed(
        RESPONSES, MESSAGES, {"input": "x", "tools": [tool("f")], "tool_choice": "required", "reasoning": {"effort": "high"}}
    )

    assert "thinking" not in body
    assert body["tool_choice"] == {"type": "any"}
    assert dropped == ("thinking, beside a tool that must be called",)


def test_of_two_tools_with_one_name_the_last_is_offered():
    more = {"type": "additional_tools", "tools": [tool("f", description="new")]}

    body, _ = crossed(RESPONSES, MESSAGES, {"input": [{"role": "user", "content": "x"}, more], "tools": [tool("f")]})

    assert [(offered["name"], offered["description"]) for offered in body["tools"]] == [("f", "new")]


@pytest.mark.parametrize(("target", "field"), [(CHAT, "max_tokens"), (RESPONSES, "max_output_tokens")])
def test_a_limit_is_lowered_to_what_the_window_leaves_and_said_so(target, field):
    body, dropped = crossed(MESSAGES, target, claude(max_tokens=64_000), window_tokens=32_000, prompt_tokens=20_000)
    least, _ = crossed(MESSAGES, target, claude(max_tokens=64_000), window_tokens=32_000, prompt_tokens=40_000)

    assert body[field] == 12_000
    assert dropped == ("max_tokens lowered to 12000",)
    assert least[field] == 16


def test_the_limit_that_messages_ask_for_fits_the_window_too():
    body, dropped = crossed(CHAT, MESSAGES, {"messages": ASK}, window_tokens=16_000, prompt_tokens=6_000)

    assert (body["max_tokens"], dropped) == (10_000, ())


def test_a_limit_below_what_responses_take_is_raised():
    body, dropped = crossed(MESSAGES, RESPONSES, claude(max_tokens=1))

    assert (body["max_output_tokens"], dropped) == (16, ("max_tokens raised to 16",))


def test_a_limit_may_be_a_whole_number_with_a_point():
    assert crossed(CHAT, RESPONSES, {"messages": ASK, "max_tokens": 1024.0})[0]["max_output_tokens"] == 1024


def test_messages_get_one_way_to_sample_within_their_bounds_and_no_blank_stops():
    body, dropped = crossed(CHAT, MESSAGES, {"messages": ASK, "temperature": 1.7, "top_p": 0.9, "stop": ["\n", "END"]})

    assert (body["temperature"], body["stop_sequences"]) == (1.0, ["END"])
    assert "top_p" not in body
    assert set(dropped) == {"blank stop sequences", "top_p, beside a temperature", "temperature lowered to 1"}


@pytest.mark.parametrize(("effort", "word"), [("xhigh", "high"), ("max", "high"), ("minimal", "low"), ("medium", "medium")])
def test_effort_is_said_in_the_hosts_words(effort, word):
    body, _ = crossed(RESPONSES, CHAT, {"input": "x", "reasoning": {"effort": effort}}, quirks=CEREBRAS)

    assert body["reasoning_effort"] == word


def test_metadata_of_an_answer_that_is_not_stored_is_left_out():
    body, dropped = crossed(RESPONSES, CHAT, {"input": "x", "metadata": {"a": "b"}}, quirks=OPENAI)

    assert "metadata" not in body
    assert dropped == ("metadata",)


def test_a_prompt_is_cached_where_the_host_must_be_asked():
    assert crossed(CHAT, MESSAGES, {"messages": ASK}, quirks=ANTHROPIC)[0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in crossed(CHAT, MESSAGES, {"messages": ASK})[0]


def thought(signature: str) -> dict:
    return {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "signature": signature}, {"type": "text", "text": "a"}],
    }


@pytest.mark.parametrize(
    "signature",
    [
        "tandem~spark~é",
        "tandem~spark~!!!",
        "tandem~spark~" + base64.b64encode(b'{"type":"item_reference","id":"rs_of_another"}').decode(),
        "tandem~spark~" + base64.b64encode(b'{"type":"message","role":"system","content":"x"}').decode(),
        "tandem~spark~" + base64.b64encode(b"[1]").decode(),
    ],
)
def test_a_seal_that_is_not_ours_or_holds_no_reasoning_is_dropped(signature):
    body, dropped = crossed(MESSAGES, RESPONSES, claude(*ASK, thought(signature)))

    assert [item["type"] for item in body["input"]] == ["message", "message"]
    assert dropped == ("reasoning of earlier answers",)


def test_a_forged_seal_brings_no_picture_to_a_target_without_eyes():
    forged = seal("spark", {"type": "image", "source": {"type": "url", "url": "https://x"}})
    item = {"type": "reasoning", "summary": [], "encrypted_content": forged}

    body, _ = crossed(RESPONSES, MESSAGES, {"input": [*ASK, item]}, accepts=frozenset({Feature.TEXT}))

    assert "image" not in json.dumps(body)


def test_reasoning_goes_back_only_before_what_followed_it():
    own = seal("spark", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"})
    alone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": own}]}

    body, dropped = crossed(MESSAGES, RESPONSES, claude(*ASK, alone, *ASK))
    whole, _ = crossed(MESSAGES, RESPONSES, claude(*ASK, thought(own), *ASK))

    assert [item["type"] for item in body["input"]] == ["message", "message"]
    assert dropped == ("reasoning of earlier answers",)
    assert [item["type"] for item in whole["input"]] == ["message", "reasoning", "message", "message"]


def test_reasoning_that_nothing_followed_is_not_put_before_a_later_answer():
    own = seal("spark", {"reasoning_content": "A"})
    alone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": own}]}

    body, _ = crossed(
        MESSAGES, CHAT, claude(*ASK, alone, *ASK, {"role": "assistant", "content": "b"}), quirks=Quirks(replays_reasoning=True)
    )

    assert "reasoning_content" not in json.dumps(body)


def test_the_first_call_of_each_step_carries_the_signature_that_its_host_takes():
    use = [{"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}} for number in range(2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "r"} for number in range(2)]

    body, _ = crossed(
        MESSAGES, CHAT, claude(*ASK, {"role": "assistant", "content": use}, {"role": "user", "content": results}), quirks=GEMINI
    )

    first, second = body["messages"][1]["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator"
    assert "extra_content" not in second


@pytest.mark.parametrize(
    ("caller", "body"),
    [
        (
            MESSAGES,
            claude(*ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": DEEP}]}),
        ),
        (RESPONSES, {"input": [{"type": "shell_call", "call_id": "c", "action": DEEP}]}),
    ],
)
def test_what_is_nested_too_deeply_to_be_written_is_refused(caller, body):
    with pytest.raises(TooDeep):
        crossed(caller, CHAT, body)


def test_results_stand_right_behind_their_calls_and_other_lines_wait():
    calls = [{"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"} for name in "ab"]
    outputs = [{"type": "function_call_output", "call_id": name, "output": name} for name in "ab"]
    note, later = ({"role": role, "content": role} for role in ("developer", "user"))

    body, _ = crossed(RESPONSES, CHAT, {"input": [*ASK, *calls, note, outputs[0], later, outputs[1], *ASK]})

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "tool", "system", "user", "user"]


def test_a_call_that_was_never_answered_holds_nothing_back():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

    body, _ = crossed(
        RESPONSES, CHAT, {"input": [*ASK, call, {"role": "user", "content": "stop"}, {"role": "assistant", "content": "ok"}]}
    )

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant"]


def test_many_answers_in_a_row_take_time_in_proportion():
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "z" * 50}]}
    view = make_view({"input": [message] * 40_000}, RESPONSES)
    began = time.perf_counter()

    BRIDGES[RESPONSES, CHAT].cross(view, Writing(make_target(), "m"), created=1)

    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_a_conversation_of_system_texts_alone_is_answered(target):
    messages = [{"role": "system", "content": "rules"}, {"role": "system", "content": "say hi"}]

    body, _ = crossed(CHAT, target, {"messages": messages})

    (only,) = body["messages"] if target is MESSAGES else body["input"]
    assert (only["role"], only["content"][0]["text"]) == ("user", "say hi")


@pytest.mark.parametrize("field", ["prompt", "conversation", "previous_response_id"])
def test_what_only_one_host_keeps_is_refused_naming_it(field):
    with pytest.raises(BadRequest, match=field):
        crossed(RESPONSES, CHAT, {"input": "x", field: "kept_1"})


def test_calls_of_a_hosts_own_tools_keep_what_they_say():
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "update_file", "path": "a", "diff": "DIFF"}}
    shell = {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}}
    outputs = [
        {"type": "apply_patch_call_output", "call_id": "p", "output": "done"},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "OUT", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ]

    body, dropped = crossed(RESPONSES, CHAT, {"input": [*ASK, patch, shell, *outputs]})

    assert "DIFF" in body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert "OUT" in body["messages"][3]["content"]
    assert dropped == ()


def test_a_free_form_call_of_a_group_has_the_name_under_which_its_tool_is_offered():
    call = {"type": "custom_tool_call", "call_id": "c", "namespace": "g", "name": "p", "input": "i"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "o"}
    tools = [{"type": "namespace", "name": "g", "tools": [{"type": "custom", "name": "p"}]}]

    body, _ = crossed(RESPONSES, CHAT, {"input": [*ASK, call, output], "tools": tools})

    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == body["tools"][0]["function"]["name"] == "g__p"


def test_long_ids_stay_apart():
    calls = [{"id": "a" * 64 + end, "type": "function", "function": {"name": "f", "arguments": "{}"}} for end in "12"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in calls]

    body, _ = crossed(
        CHAT, MESSAGES, {"messages": [*ASK, {"role": "assistant", "content": None, "tool_calls": calls}, *results]}
    )

    ids = [block["id"] for block in body["messages"][1]["content"]]
    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= 64
    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ids


def test_a_refusal_of_an_earlier_answer_is_kept_as_its_words():
    body, _ = crossed(CHAT, MESSAGES, {"messages": [*ASK, {"role": "assistant", "content": None, "refusal": "no"}, *ASK]})

    assert body["messages"][1]["content"] == [{"type": "text", "text": "no"}]


def document(source: dict) -> dict:
    return {"type": "document", "source": source}


def test_documents_of_text_are_told_as_text_and_what_has_no_form_is_named():
    content = [
        document({"type": "content", "content": [{"type": "text", "text": "INNER"}]}),
        document({"type": "base64", "media_type": "text/plain", "data": base64.b64encode(b"PLAIN").decode()}),
        document({"type": "url", "url": "https://a/b.pdf"}),
        document({"type": "file", "file_id": "file_2"}),
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "text", "text": "see"},
    ]

    chat, dropped = crossed(MESSAGES, CHAT, claude({"role": "user", "content": content}))
    responses, _ = crossed(MESSAGES, RESPONSES, claude({"role": "user", "content": content}))

    assert [part["type"] for part in chat["messages"][0]["content"]] == ["text"] * 3
    assert "INNER" in json.dumps(chat)
    assert "PLAIN" in json.dumps(chat)
    assert set(dropped) == {"a file by its id", "an image by its id", "a file by its address"}
    assert {"type": "input_file", "file_url": "https://a/b.pdf"} in responses["input"][0]["content"]


def test_a_picture_has_the_media_type_that_every_host_knows():
    picture = {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,AA"}}

    body, _ = crossed(CHAT, MESSAGES, {"messages": [{"role": "user", "content": [picture]}]})

    assert body["messages"][0]["content"][0]["source"]["media_type"] == "image/jpeg"


def test_many_parts_of_one_unknown_kind_are_named_once():
    content = [{"type": "input_audio", "input_audio": {}}] * 50

    _, dropped = crossed(CHAT, MESSAGES, {"messages": [{"role": "user", "content": content}] * 9})

    assert dropped == ("parts of type input_audio",)
