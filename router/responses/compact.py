"""Our own compaction: replaces a conversation by a shorter one that any target can continue.

The summary is plain text by a tier that the policies choose; one written by a host is readable by that host alone. Clients send
a `compaction` item back unchanged, so ours travels in one and is opened on return.
"""

import time

import orjson

from router.contract.digits import as_written
from router.contract.errors import BadRequest, TooDeep, UpstreamMalformed
from router.contract.parts import write_parts
from router.contract.request import Json, JsonObject, RequestView
from router.dialects.fields import as_list, as_object, as_text, texts_of
from router.dialects.responses.request import CALLS
from router.dialects.translate.envelope import SUMMARY_MARK, unwrap_summary, wrap_summary
from router.dialects.translate.expect import unexpected
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
"""Begins as in `clients.HARNESS_STARTS`, so it is not taken for the person's words."""
_SUMMARY_STARTS = ("Another language model started to solve this problem", "This session is being continued from a previous")
_LEFT_OUT = frozenset(
    """
    tools tool_choice parallel_tool_calls max_tool_calls stream stream_options store text include background
    max_output_tokens context_management truncation
    """.split()
)
_SUMMARY_ITEM = "compaction"
_HOSTS_SUMMARIES = frozenset({_SUMMARY_ITEM, "context_compaction"})
_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_KEPT_CHARS = 80_000
"""About 20,000 tokens of input; the newest are kept."""


def open_summary(value: Json, index: int) -> Json:
    """Our summary as a message, which every target reads. Other items, a host's summary too, are unchanged."""
    item = as_object(value)
    sealed = as_text(item.get("encrypted_content"))
    if item.get("type") != _SUMMARY_ITEM or not sealed.startswith(SUMMARY_MARK):
        return value
    summary = unwrap_summary(sealed)
    if summary is None:
        where = f"input[{index}].encrypted_content"
        raise BadRequest(f"{where}: compaction item was modified. Return it exactly as received", param=where)
    return _message("user", summary, as_text(item.get("id")).removeprefix("cmp_") or "summary", "summary")


def write_body(body: JsonObject, *, is_large: bool = False) -> bytes:
    """Bytes of a changed request. Raises `TooDeep`."""
    try:
        return write_parts(body, as_written) if is_large else orjson.dumps(body, default=as_written)
    except orjson.JSONEncodeError as error:
        raise TooDeep("the conversation is nested too deeply to be rewritten: over 250 levels") from error


def ask_for_summary(body: JsonObject) -> JsonObject:
    """Append the request for a summary to the conversation."""
    items = _answered(input_items(body))
    wanted: JsonObject = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _INSTRUCTION}]}
    kept = {name: value for name, value in body.items() if name not in _LEFT_OUT}
    return {**kept, "input": [*items, wanted], "store": False, "stream": False}


def _answered(items: list[Json]) -> list[Json]:
    """Drop calls without a result, which hosts refuse."""
    ids = [_call_id(as_object(item), f"input[{index}]") for index, item in enumerate(items)]
    kinds = [as_text(as_object(item).get("type")) for item in items]
    results = {call_id for call_id, kind in zip(ids, kinds, strict=True) if kind.endswith("_output")}
    return [item for item, call_id, kind in zip(items, ids, kinds, strict=True) if kind not in CALLS or call_id in results]


def _call_id(item: JsonObject, where: str) -> str | None:
    call_id = item.get("call_id")
    if call_id is None and item.get("type") == "local_shell_call_output":
        call_id = item.get("id")
    if call_id is not None and not isinstance(call_id, str):
        raise unexpected(f"{where}.call_id", call_id, "a string")
    return call_id


def write_compaction(view: RequestView, answer: bytes, target: str) -> bytes:
    """The compaction: the newest input, and the summary."""
    response = as_object(orjson.loads(answer))
    summary = "\n".join(
        text
        for item in map(as_object, as_list(response.get("output")))
        if item.get("type") == "message"
        for text in texts_of(item.get("content"), _TEXT_PARTS)
    ).strip()
    if not summary:
        raise UpstreamMalformed(target, f'target "{target}" did not write a summary')
    kept: JsonObject = {
        "id": f"cmp_{view.id.removeprefix('req_')}",
        "type": _SUMMARY_ITEM,
        "encrypted_content": wrap_summary(_SUMMARY_START + summary),
    }
    output: list[Json] = [*_said(view), kept]
    return orjson.dumps(
        {
            "id": f"resp_{view.id.removeprefix('req_')}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": output,
            "usage": response.get("usage"),
        },
        default=as_written,
    )


def _said(view: RequestView) -> list[Json]:
    """Input from people and programs, in order, within the bound, without our earlier summaries.

    A host's summary stays: the model that wrote the new one may not have been able to read it.
    """
    left, found = _KEPT_CHARS, list[Json]()
    items = input_items(view.body)[:-1]
    for index in range(len(items) - 1, -1, -1):
        item = as_object(items[index])
        if as_text(item.get("type")) in _HOSTS_SUMMARIES:
            found.append(items[index])
            continue
        role = as_text(item.get("role"))
        text = "\n".join(texts_of(item.get("content"), _TEXT_PARTS))
        if role not in ("user", "developer", "system") or not text or text.startswith(_SUMMARY_STARTS):
            continue
        if left <= 0:
            continue
        found.append(_message(role, text[:left], view.id, str(index)))
        left -= len(text)
    return found[::-1]


def _message(role: str, text: str, request_id: str, index: str) -> JsonObject:
    name = f"msg_{request_id.removeprefix('req_')}_{index}"
    return {
        "id": name,
        "type": "message",
        "role": role,
        "status": "completed",
        "content": [{"type": "input_text", "text": text}],
    }
