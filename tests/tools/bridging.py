"""Requests and answers over a bridge, in few words."""

import json

from router.contract.words import Dialect
from router.dialects.hosts import quirks_of
from router.dialects.sse import split_frames
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from tests.tools.values import EVERYTHING, make_target, make_view

CHAT, RESPONSES, MESSAGES = Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES
CALLERS_OF_CHAT = [RESPONSES, MESSAGES]
OPENAI = quirks_of("https://api.openai.com/v1")
CEREBRAS, GEMINI = quirks_of("https://api.cerebras.ai/v1"), quirks_of("https://generativelanguage.googleapis.com/v1beta/openai")
ASK = [{"role": "user", "content": "hi"}]
PICTURE = "data:image/png;base64,AAAA"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
REQUESTS = {
    CHAT: {"messages": [{"role": "user", "content": "x"}]},
    RESPONSES: {"input": "x"},
    MESSAGES: {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
}


def crossed(caller: Dialect, target: Dialect, body: dict, window_tokens: int = 128_000, accepts=EVERYTHING, **more):
    """A request's body on the other side, and what it lost."""
    made = make_target(speaks=frozenset({target}), accepts=accepts, window_tokens=window_tokens)
    translated = BRIDGES[caller, target].cross(make_view(body, caller), WriteContext(made, "real-model", **more), created=1)
    return json.loads(translated.body), translated.dropped


def claude(*messages: dict, **more) -> dict:
    return {"max_tokens": 99, "messages": [*(messages or ASK)], **more}


def tool(name: str, **more) -> dict:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, **more}


def thought(signature: str) -> dict:
    return {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "signature": signature}, {"type": "text", "text": "a"}],
    }


def answer_to(caller: Dialect, target: Dialect, **more):
    view = make_view({**REQUESTS[caller], **more}, caller)
    return BRIDGES[caller, target].cross(view, WriteContext(make_target(speaks=frozenset({target})), "m"), created=1).answer


def heard(caller: Dialect, target: Dialect, *events: dict | bytes, **more) -> list[dict]:
    """The caller's events for those of a target."""
    answer = answer_to(caller, target, stream=True, **more)
    out = b"".join([answer.feed(event if isinstance(event, bytes) else frames(event)) for event in events])
    return events_in(out + answer.finish())


def frames(*events: dict) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def events_in(data: bytes) -> list[dict]:
    return [frame.json() for frame in split_frames(data) if frame.data != b"[DONE]"]


def chunk(delta: dict | None = None, finish: str | None = None) -> dict:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}


def call(index: int | None, call_id: str = "", name: str = "", arguments: object = "") -> dict:
    head = {} if index is None else {"index": index}
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return chunk({"tool_calls": [{**head, **({"id": call_id} if call_id else {}), "function": function}]})


def calls_of(events: list[dict]) -> list[tuple[str, str, str]]:
    """Id, name and arguments, as a client of any dialect assembles them."""
    calls: dict[object, list[str]] = {}
    for event in events:
        block = event.get("content_block", {})
        if block.get("type") == "tool_use":
            calls[event["index"]] = [block["id"], block["name"], ""]
        elif event.get("delta") and event.get("type") == "content_block_delta" and "partial_json" in event["delta"]:
            calls[event["index"]][2] += event["delta"]["partial_json"]
        elif event.get("type") == "response.output_item.done" and event["item"]["type"] == "function_call":
            item = event["item"]
            calls[event["output_index"]] = [item["call_id"], item["name"], item["arguments"]]
        for choice in event.get("choices", []):
            for piece in choice["delta"].get("tool_calls", []):
                known = calls.setdefault(piece["index"], ["", "", ""])
                known[0] += piece.get("id", "")
                known[1] += piece["function"].get("name", "")
                known[2] += piece["function"]["arguments"]
    return [tuple(found) for found in calls.values()]


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
