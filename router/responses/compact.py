"""Our own compaction: a conversation in, a shorter one out that any target can go on from.

The summary is plain text, written by whichever tier the policies choose. An opaque one would be readable by its maker alone.
"""

import time

import orjson
from msgspec.structs import replace

from router.contract.errors import TandemError, TooDeep, UpstreamMalformed
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import Json, JsonObject, RequestView
from router.contract.words import Operation
from router.dialects.fields import as_list, as_object, as_text, texts_of
from router.dialects.requests import read_anew
from router.responses.items import input_items

_INSTRUCTION = """You are performing a CONTEXT CHECKPOINT COMPACTION. Write a hand-over summary for another model that will \
resume this task and will see nothing of the conversation but your summary and what the user said.

Say, briefly and in a structured way:
- what was asked, and what is done so far, with the decisions that were made and why
- constraints, preferences and findings that must not be lost
- files, functions, commands, names and values that are needed to go on, exactly as they are spelled
- what remains to be done, as clear next steps

Write the summary only. Call no tools."""
_SUMMARY_START = """Another language model started to solve this problem and wrote this summary of its work. \
Build on what is done, and do not repeat it:

"""
"""Begins as `clients.HARNESS_STARTS` has it, so that nobody takes the summary for the person's words."""
_SUMMARY_STARTS = ("Another language model started to solve this problem", "This session is being continued from a previous")
_LEFT_OUT = frozenset(
    """
    tools tool_choice parallel_tool_calls max_tool_calls stream stream_options store text include background
    max_output_tokens context_management truncation
    """.split()
)
_CALL_TYPES = ("function_call", "custom_tool_call")
_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_KEPT_CHARS = 80_000
"""About 20,000 tokens of what was said to the model; the newest are kept."""


class BufferingSink:
    """Takes a whole answer and sends nothing on: what becomes of it is decided by who asked."""

    def __init__(self, caller: Sink) -> None:
        self._caller = caller
        self._pieces: list[bytes] = []
        self.headers: Headers = ()

    def feed_from(self, flow: Flow) -> None:
        """Nobody reads slowly here: what is held is bounded by the relay, which itself holds whole answers."""

    def start(self, status: int, headers: Headers) -> None:
        self.headers = tuple((name, value) for name, value in headers if name != "content-length")

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def end(self) -> None:
        """The answer waits to be taken."""

    def fail(self, error: TandemError) -> None:
        self._caller.fail(error)

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)


def ask_for_summary(view: RequestView) -> RequestView:
    """The request that has the summary written: the conversation, and after it what is wanted. Others stay as they are."""
    if view.operation is not Operation.COMPACT:
        return view
    items = _answered(input_items(view.body))
    wanted: JsonObject = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _INSTRUCTION}]}
    kept = {name: value for name, value in view.body.items() if name not in _LEFT_OUT}
    body: JsonObject = {**kept, "input": [*items, wanted], "store": False, "stream": False}
    try:
        raw = orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise TooDeep("the conversation is nested too deeply to be rewritten: over 250 levels") from error
    return replace(read_anew(view, body, raw), operation=Operation.CREATE, continued=None)


def _answered(items: list[Json]) -> list[Json]:
    """The items without calls that have no result, which hosts refuse."""
    results = {as_object(item).get("call_id") for item in items if as_text(as_object(item).get("type")).endswith("_output")}
    return [
        item for item in items if as_object(item).get("type") not in _CALL_TYPES or as_object(item).get("call_id") in results
    ]


def write_compaction(view: RequestView, answer: bytes, target: str) -> bytes:
    """The compaction: what was said to the model, the newest first to be kept, and the summary of the rest."""
    response = as_object(orjson.loads(answer))
    summary = "\n".join(
        text
        for item in map(as_object, as_list(response.get("output")))
        if item.get("type") == "message"
        for text in texts_of(item.get("content"), _TEXT_PARTS)
    ).strip()
    if not summary:
        raise UpstreamMalformed(target, f'target "{target}" did not write a summary')
    output: list[Json] = [*_said(view), _message("user", _SUMMARY_START + summary, view.id, "summary")]
    return orjson.dumps(
        {
            "id": f"resp_{view.id.removeprefix('req_')}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": output,
            "usage": response.get("usage"),
        }
    )


def _said(view: RequestView) -> list[Json]:
    """What people and programs said to the model, in order, within its bound. Earlier summaries are in the new one."""
    left, found = _KEPT_CHARS, list[Json]()
    items = input_items(view.body)[:-1]
    for index in range(len(items) - 1, -1, -1):
        item = as_object(items[index])
        role = as_text(item.get("role"))
        text = "\n".join(texts_of(item.get("content"), _TEXT_PARTS))
        if role not in ("user", "developer", "system") or not text or text.startswith(_SUMMARY_STARTS):
            continue
        if left <= 0:
            break
        found.append(_message(role, text[:left], view.id, str(index)))
        left -= len(text)
    return found[::-1]


def _message(role: str, text: str, request_id: str, place: str) -> JsonObject:
    name = f"msg_{request_id.removeprefix('req_')}_{place}"
    return {
        "id": name,
        "type": "message",
        "role": role,
        "status": "completed",
        "content": [{"type": "input_text", "text": text}],
    }
