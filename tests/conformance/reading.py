"""What a strict client makes of an answer, whole or streamed: every shape and every order is checked on the way."""

import json
from dataclasses import dataclass, field

from tests.conformance.measure import find_faults, shapes_of
from tests.conformance.published import find_differences, is_known_event
from tests.conformance.road import Reply

_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
_ENDS = {
    "stop": "stop", "length": "length", "tool_calls": "calls", "content_filter": "refusal", "end_turn": "stop",
    "max_tokens": "length", "tool_use": "calls", "refusal": "refusal",
}  # fmt: skip


@dataclass
class Heard:
    """What was said, in no dialect."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    end: str = ""


def check(dialect: str, shape: str, value: object) -> None:
    """Fail with every fault of a value, by what is documented and by what the API's own SDK reads."""
    faults = find_faults(dialect, shape, value) + find_differences(dialect, shape, value)
    assert not faults, "\n".join(faults)


def read_events(dialect: str, body: bytes) -> list[dict]:
    """The events of a stream, each of a known kind and in its shape; the frames themselves are checked too."""
    assert body.endswith(b"\n\n")
    blocks = [block for block in body.decode().split("\n\n") if block and not block.startswith(":")]
    if dialect == "chat":
        assert blocks.pop() == "data: [DONE]"
    events = []
    for block in blocks:
        *names, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        if dialect == "chat":
            assert names == []
            check(dialect, "Chunk", event)
        else:
            assert names == [f"event: {event['type']}"]
            is_known = event["type"] in shapes_of(dialect) and is_known_event(dialect, event["type"])
            assert is_known, f"{event['type']} is no event of this API"
            check(dialect, event["type"], event)
        events.append(event)
    return events


def hear(dialect: str, reply: Reply) -> Heard:
    """Read a good answer, whichever way it came."""
    assert (reply.status, reply.is_whole) == (200, True), reply.body
    if reply.headers["content-type"].startswith("text/event-stream"):
        return _STREAMS[dialect](read_events(dialect, reply.body))
    assert reply.headers["content-type"] == "application/json"
    check(dialect, "Answer", reply.json)
    return _WHOLES[dialect](reply.json)


def _hear_chat(answer: dict) -> Heard:
    (choice,) = answer["choices"]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls", [])]
    calls = [(function["name"], function["arguments"]) for function in functions]
    words = (message["content"] or "", message["refusal"] or "", message.get("reasoning_content", ""))
    return Heard(*words, calls, _ENDS[choice["finish_reason"]])


def _hear_chunks(chunks: list[dict]) -> Heard:
    heard, pieces = Heard(), dict[int, list[str]]()
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    for chunk in chunks:
        for choice in chunk["choices"]:
            assert not heard.end, "something follows the reason for the end"
            delta = choice["delta"]
            heard.text += delta.get("content") or ""
            heard.refusal += delta.get("refusal") or ""
            heard.thinking += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", []):
                if piece["index"] not in pieces:
                    assert (bool(piece["id"]), piece["type"], piece["index"]) == (True, "function", len(pieces))
                known = pieces.setdefault(piece["index"], ["", ""])
                known[0] += piece["function"].get("name", "")
                known[1] += piece["function"].get("arguments", "")
            heard.end = _ENDS.get(choice["finish_reason"] or "", "")
    heard.calls = [(name, arguments) for name, arguments in pieces.values()]
    return heard


def _hear_response(answer: dict) -> Heard:
    heard = Heard()
    for item in answer["output"]:
        match item["type"]:
            case "message":
                heard.text += "".join(part.get("text", "") for part in item["content"])
                heard.refusal += "".join(part.get("refusal", "") for part in item["content"])
            case "reasoning":
                heard.thinking += "".join(part["text"] for part in item["summary"])
            case "function_call":
                heard.calls.append((item["name"], item["arguments"]))
    assert (answer["completed_at"] is not None) is (answer["status"] == "completed")
    if answer["status"] == "incomplete":
        assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
        heard.end = "length"
    else:
        heard.end = "calls" if heard.calls else "stop"
    return heard


_DELTAS = {
    "response.output_text.delta": "response.output_text.done",
    "response.refusal.delta": "response.refusal.done",
    "response.function_call_arguments.delta": "response.function_call_arguments.done",
    "response.reasoning_summary_text.delta": "response.reasoning_summary_text.done",
}
_DONE_FIELDS = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.function_call_arguments.done": "arguments",
    "response.reasoning_summary_text.done": "text",
}


def _hear_response_events(events: list[dict]) -> Heard:
    kinds = [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert [kind for kind in kinds if kind in _TERMINAL] == kinds[-1:]
    last = events[-1]["response"]
    for event in events:
        if "response" in event:
            changing = {"status", "output", "usage", "completed_at", "incomplete_details", "error"}
            same = [{name: value for name, value in each.items() if name not in changing} for each in (event["response"], last)]
            assert same[0] == same[1]
    _check_deltas(events)
    added = {event["output_index"]: event["item"] for event in events if event["type"] == "response.output_item.added"}
    done = {event["output_index"]: event["item"] for event in events if event["type"] == "response.output_item.done"}
    assert [done[index] for index in range(len(done))] == last["output"]
    assert {index: (item["id"], item["type"]) for index, item in added.items()} == {
        index: (item["id"], item["type"]) for index, item in done.items()
    }
    assert f"response.{last['status']}" == kinds[-1]
    return _hear_response(last)


def _check_deltas(events: list[dict]) -> None:
    """Whoever adds the deltas of a thing up comes to what its end says."""
    gathered: dict[tuple, str] = {}
    for event in events:
        kind = _DELTAS.get(event["type"], event["type"])
        if kind not in _DONE_FIELDS:
            continue
        key = (kind, event["item_id"], event["output_index"])
        if kind != event["type"]:
            gathered[key] = gathered.get(key, "") + event["delta"]
        else:
            assert gathered.get(key, "") == event[_DONE_FIELDS[kind]]


def _hear_message(answer: dict) -> Heard:
    blocks = answer["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [(block["name"], json.dumps(block["input"])) for block in blocks if block["type"] == "tool_use"]
    return Heard(text, "", thinking, calls, _ENDS[answer["stop_reason"]])


_BLOCK_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("input", "partial_json"),
}


def _hear_message_events(events: list[dict]) -> Heard:
    events = [event for event in events if event["type"] != "ping"]
    answer, blocks = dict(events[0]["message"]), list[dict]()
    is_open = False
    assert events[-1]["type"] == "message_stop"
    for event in events[1:-1]:
        match event["type"]:
            case "content_block_start":
                assert (is_open, event["index"]) == (False, len(blocks))
                is_open = True
                blocks.append({**event["content_block"], **({"input": ""} if "input" in event["content_block"] else {})})
            case "content_block_delta":
                assert (is_open, event["index"]) == (True, len(blocks) - 1)
                name, said = _BLOCK_DELTAS[event["delta"]["type"]]
                blocks[-1][name] += event["delta"][said]
            case "content_block_stop":
                assert (is_open, event["index"]) == (True, len(blocks) - 1)
                is_open = False
            case "message_delta":
                assert not is_open
                answer |= {**event["delta"], "usage": {**answer["usage"], **event["usage"]}}
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")
    answer["content"] = blocks
    check("messages", "Answer", answer)
    return _hear_message(answer)


_WHOLES = {"chat": _hear_chat, "responses": _hear_response, "messages": _hear_message}
_STREAMS = {"chat": _hear_chunks, "responses": _hear_response_events, "messages": _hear_message_events}
