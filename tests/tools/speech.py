"""Answers of each dialect's hosts, written from their documentation, independent of the bridges' writers."""

import json
from dataclasses import dataclass

from tests.tools.upstream import CHAT_STREAM_HEAD, Script, Seen, Wire, answer_json

USAGE = {
    "chat": {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102},
    "responses": {
        "input_tokens": 90,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 102,
    },
    "messages": {"input_tokens": 90, "output_tokens": 12},
}


@dataclass(frozen=True)
class ToolCall:
    """`arguments` is sent as is, JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Speech:
    """Thinking, a text or refusal, and calls, in that order. A cut answer reached its limit."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    refusal: str = ""
    is_cut: bool = False


def speak(dialect: str, speech: Speech, *, ends: bool = True) -> Script:
    """A script that streams or not as asked, with 404 for other dialects. A stream may lack its end."""
    path, whole, stream = _DIALECTS[dialect]

    async def script(wire: Wire, seen: Seen) -> None:
        if seen.path.partition("?")[0] != path:
            await answer_json({"error": {"message": f"{seen.path} is not spoken here"}}, status=404)(wire, seen)
        elif seen.json.get("stream"):
            await wire.send(CHAT_STREAM_HEAD)
            frames = stream(speech)
            for frame in frames if ends else frames[: -_ENDING_FRAMES[dialect]]:
                await wire.chunk(frame)
            await wire.end_chunks()
        else:
            await answer_json(whole(speech))(wire, seen)

    return script


def write_whole(dialect: str, speech: Speech) -> dict:
    return _DIALECTS[dialect][1](speech)


def write_stream(dialect: str, speech: Speech) -> list[bytes]:
    return _DIALECTS[dialect][2](speech)


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _chat_whole(speech: Speech) -> dict:
    message: dict = {"role": "assistant", "content": speech.text or None, "refusal": speech.refusal or None}
    if speech.thinking:
        message["reasoning_content"] = speech.thinking
    if speech.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in speech.calls
        ]
    finish = _chat_finish(speech)
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": "chatcmpl-x", "object": "chat.completion", "created": 1, "model": "host-model"}
    return {**head, "choices": [choice], "usage": USAGE["chat"]}


def _chat_finish(speech: Speech) -> str:
    return "length" if speech.is_cut else "tool_calls" if speech.calls else "stop"


def _chat_stream(speech: Speech) -> list[bytes]:
    head = {"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "host-model"}
    deltas: list[dict] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": half} for half in _halves(speech.thinking) if half]
    deltas += [{"content": half} for half in _halves(speech.text) if half]
    deltas += [{"refusal": half} for half in _halves(speech.refusal) if half]
    for index, call in enumerate(speech.calls):
        begun = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
    # Parallel calls interleave their arguments, a half each: only the index tells them apart.
    for half in (0, 1):
        for index, call in enumerate(speech.calls):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": _halves(call.arguments)[half]}}]})
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    finish = _chat_finish(speech)
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({**head, "choices": [], "usage": USAGE["chat"]})
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def _responses_items(speech: Speech) -> list[dict]:
    items: list[dict] = []
    if speech.thinking:
        summary = [{"type": "summary_text", "text": speech.thinking}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "sealed"})
    if speech.text or speech.refusal:
        part = {"type": "output_text", "text": speech.text, "annotations": [], "logprobs": []}
        content = [{"type": "refusal", "refusal": speech.refusal} if speech.refusal else part]
        status = "incomplete" if speech.is_cut else "completed"
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content})
    for call in speech.calls:
        identity = {"id": f"fc_{call.id}", "type": "function_call", "status": "completed", "call_id": call.id}
        items.append({**identity, "name": call.name, "arguments": call.arguments})
    return items


_UNASKED = {
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "instructions": None,
    "metadata": {},
    "previous_response_id": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "background": False,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}


def _responses_whole(speech: Speech, status: str = "") -> dict:
    is_done = not status
    return {
        "id": "resp_x",
        "object": "response",
        "created_at": 1,
        "completed_at": 2 if is_done and not speech.is_cut else None,
        "status": status or _responses_status(speech),
        "model": "host-model",
        "output": _responses_items(speech) if is_done else [],
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_done and speech.is_cut else None,
        **_UNASKED,
        "usage": USAGE["responses"] if is_done else None,
    }


def _responses_status(speech: Speech) -> str:
    return "incomplete" if speech.is_cut else "completed"


def _responses_stream(speech: Speech) -> list[bytes]:
    events: list[dict] = [
        {"type": f"response.{word}", "response": _responses_whole(speech, "in_progress")} for word in ("created", "in_progress")
    ]
    for index, item in enumerate(_responses_items(speech)):
        place = {"item_id": item["id"], "output_index": index}
        empty = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}[item["type"]]
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}})
        match item["type"]:
            case "reasoning":
                place["summary_index"] = 0
                part = {"type": "summary_text", "text": ""}
                events.append({"type": "response.reasoning_summary_part.added", **place, "part": part})
                deltas, kind = _halves(speech.thinking), "response.reasoning_summary_text"
                done = {"text": speech.thinking}
            case "message":
                place["content_index"] = 0
                (part,), word = item["content"], "refusal" if speech.refusal else "text"
                events.append({"type": "response.content_part.added", **place, "part": {**part, word: ""}})
                deltas, kind = _halves(part[word]), f"response.{part['type']}"
                done = {word: part[word], **({} if speech.refusal else {"logprobs": []})}
            case _:
                deltas, kind = _halves(item["arguments"]), "response.function_call_arguments"
                done = {"name": item["name"], "arguments": item["arguments"]}
        more = {"logprobs": []} if "logprobs" in done else {}
        events += [{"type": f"{kind}.delta", **place, "delta": delta, **more} for delta in deltas]
        events.append({"type": f"{kind}.done", **place, **done})
        if item["type"] == "message":
            events.append({"type": "response.content_part.done", **place, "part": item["content"][0]})
        elif item["type"] == "reasoning":
            events.append({"type": "response.reasoning_summary_part.done", **place, "part": item["summary"][0]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{_responses_status(speech)}", "response": _responses_whole(speech)})
    return [_named({**event, "sequence_number": number}) for number, event in enumerate(events)]


def _messages_whole(speech: Speech) -> dict:
    content: list[dict] = []
    if speech.thinking:
        content.append({"type": "thinking", "thinking": speech.thinking, "signature": "signed"})
    if speech.text or speech.refusal:
        content.append({"type": "text", "text": speech.text or speech.refusal})
    for call in speech.calls:
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)})
    return {
        "id": "msg_x",
        "type": "message",
        "role": "assistant",
        "model": "host-model",
        "content": content,
        "stop_reason": _messages_stop(speech),
        "stop_sequence": None,
        "usage": USAGE["messages"],
    }


def _messages_stop(speech: Speech) -> str:
    if speech.is_cut:
        return "max_tokens"
    return "refusal" if speech.refusal else "tool_use" if speech.calls else "end_turn"


def _messages_stream(speech: Speech) -> list[bytes]:
    whole = _messages_whole(speech)
    opening = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 90, "output_tokens": 1}}
    events: list[dict] = [{"type": "message_start", "message": opening}, {"type": "ping"}]
    blocks = list(whole["content"])
    for index, block in enumerate(blocks):
        match block["type"]:
            case "thinking":
                empty = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(speech.thinking)]
                deltas.append({"type": "signature_delta", "signature": "signed"})
            case "text":
                empty = {"text": ""}
                deltas = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
            case _:
                empty = {"input": {}}
                written = json.dumps(block["input"])
                # An empty input has one delta, which is empty.
                halves = ("", *_halves(written)) if block["input"] else ("",)
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        events.append({"type": "content_block_start", "index": index, "content_block": {**block, **empty}})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 12}}, {"type": "message_stop"}]
    return [_named(event) for event in events]


def _named(event: dict) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


_DIALECTS = {
    "chat": ("/v1/chat/completions", _chat_whole, _chat_stream),
    "responses": ("/v1/responses", _responses_whole, _responses_stream),
    "messages": ("/v1/messages", _messages_whole, _messages_stream),
}
_ENDING_FRAMES = {"chat": 3, "responses": 1, "messages": 2}
