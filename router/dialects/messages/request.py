"""Anthropic Messages requests, their hidden state (signed thinking blocks), and what newer API versions refuse."""

from collections.abc import Callable, Iterator

from router.contract.errors import BadRequest, ThreadForgotten
from router.contract.request import Conversation, History, Json, JsonObject, Message, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.fields import (
    A_FILE_BY_ID,
    AN_IMAGE_BY_ID,
    NOTHING_SEEN,
    Reading,
    Seen,
    as_list,
    as_object,
    as_text,
    find_hosted,
    fingerprint,
    objects,
    read_list,
    texts_of,
)
from router.dialects.histories import learn
from router.dialects.marks import holds
from router.dialects.translate.envelope import is_wrapped

_LIMIT = "max_tokens"
LIMIT_FIELDS = (_LIMIT,)
_TEXT_PARTS = frozenset({"text"})
_OWN_PARTS = ("tool_use", "tool_result", "thinking")
"""Parts that chat does not have."""
_CALLERS_TOOLS = (None, "custom")
_CALLERS_PREFIXES = ("bash_", "text_editor_", "memory_")
_THINKING = frozenset({"thinking", "redacted_thinking"})
THREAD = "thread"
"""Leaves a conversation to the host, which a router between several hosts cannot."""
VERSION = "anthropic-version"
_STRICTER = "2026-10-21"
"""From this API version on, every target refuses some fields and blocks, as the caller's own host would."""
_GONE_FIELDS = ("temperature", "top_p", "top_k")
_NEEDING = frozenset({"tools", "output_config", "thinking"})


def read(body: JsonObject, operation: Operation, history: History | None) -> Reading:
    """Read a request to create, or to count tokens (which needs no limit)."""
    if as_object(body.get(THREAD)).get("type") == "continue":
        raise ThreadForgotten(f"{THREAD}: Tandem keeps no threads. Send the whole conversation", param=THREAD)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest(
            'messages: missing. Send a non-empty list such as [{"role": "user", "content": "…"}]', param="messages"
        )
    limit = body.get(_LIMIT)
    if operation is Operation.CREATE and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadRequest(f"{_LIMIT}: missing. Send a whole number above 0", param=_LIMIT)
    conversation = history.converse(messages, read_message) if history else Conversation(messages, read_message)
    system = "\n".join(texts_of(body.get("system"), _TEXT_PARTS))
    seen = learn(conversation, "seen", NOTHING_SEEN, _look_through)
    if seen is NOTHING_SEEN and _NEEDING.isdisjoint(body):
        return Reading(conversation, system)
    needs = set(seen.needs)
    tools = read_list(body, "tools")
    if objects(tools, "tools"):
        needs.add(Feature.TOOLS)
    output = as_object(body.get("output_config"))
    if as_object(output.get("format")).get("type") == "json_schema":
        needs.add(Feature.JSON_SCHEMA)
    effort = as_text(output.get("effort")) or None
    if effort or as_object(body.get("thinking")).get("type") not in (None, "disabled"):
        needs.add(Feature.REASONING)
    hosted = find_hosted(tools, _CALLERS_TOOLS, _CALLERS_PREFIXES)
    return Reading(conversation, system, effort, frozenset(needs), seen, hosted=hosted)


def _look_through(seen: Seen, conversation: Conversation, start: int, stop: int) -> Seen:
    for message in objects(conversation.items[start:stop], "messages", start):
        content = message.get("content")
        if isinstance(content, list):
            seen = _note_parts(seen, content)
    return seen


def _note_parts(seen: Seen, content: list[Json]) -> Seen:
    for value in content:
        part = as_object(value)
        match part.get("type"):
            case "image":
                source = as_object(part.get("source"))
                seen = seen.with_image(len(as_text(source.get("data"))), AN_IMAGE_BY_ID if source.get("type") == "file" else "")
            case "document":
                source = as_object(part.get("source"))
                seen = seen.with_file(len(as_text(source.get("data"))), A_FILE_BY_ID if source.get("type") == "file" else "")
            case "container_upload":
                seen = seen.with_file(0, A_FILE_BY_ID)
            case "tool_result":
                seen = _note_parts(seen, as_list(part.get("content")))
    return seen


def read_message(item: Json) -> Message:
    """One message. A user's may hold tool results, text, or both."""
    message = as_object(item)
    role, content = as_text(message.get("role")), message.get("content")
    if isinstance(content, str):
        return Message(role, (content,))
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for value in as_list(content):
        part = as_object(value)
        if part.get("type") == "tool_use":
            calls.append(ToolCall(as_text(part.get("id")), as_text(part.get("name")), part.get("input")))
        elif part.get("type") == "tool_result":
            text = "\n".join(texts_of(part.get("content"), _TEXT_PARTS))
            results.append(ToolResult(as_text(part.get("tool_use_id")), text, part.get("is_error") is True))
    return Message(role, texts_of(content, _TEXT_PARTS), tuple(calls), tuple(results))


def recognise(body: JsonObject) -> bool:
    """Whether the fields are this dialect's: a conversation without calls looks like chat's."""
    if "system" in body or "anthropic_version" in body or "thinking" in body:
        return True
    tools = as_list(body.get("tools"))
    if tools and "input_schema" in as_object(tools[0]):
        return True
    contents = (as_list(as_object(message).get("content")) for message in as_list(body.get("messages")))
    return any(as_object(part).get("type") in _OWN_PARTS for content in contents for part in content)


def write_example(words: str) -> JsonObject:
    return {"model": "auto", "messages": [{"role": "user", "content": words}], _LIMIT: 1024}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    system = body.get("system")
    blocks: list[Json] = [{"type": "text", "text": system}] if isinstance(system, str) else list(as_list(system))
    changes["system"] = [*blocks, {"type": "text", "text": text}]


def opaque_keys(message: JsonObject) -> Iterator[str]:
    if message.get("role") == "assistant" and isinstance(content := message.get("content"), list):
        yield from (_block_key(block) for block in map(as_object, content) if as_text(block.get("type")) in _THINKING)


def _block_key(block: JsonObject) -> str:
    return fingerprint(as_text(block.get("signature")) or as_text(block.get("data")) or as_text(block.get("thinking")))


def without_opaque(messages: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    def stays(block: JsonObject) -> bool:
        return as_text(block.get("type")) not in _THINKING or not goes(_block_key(block))

    kept = (_with_blocks(item, stays) if as_object(item).get("role") == "assistant" else item for item in messages)
    return [item for item in kept if item is not None]


def without_wrapped(messages: list[Json]) -> list[Json]:
    kept = (_with_blocks(item, lambda block: not is_wrapped(as_text(block.get("signature")))) for item in messages)
    return [item for item in kept if item is not None]


def _with_blocks(message: Json, stays: Callable[[JsonObject], bool]) -> Json:
    """A message with some of its blocks, or None: empty ones are refused."""
    content = as_object(message).get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if stays(as_object(block))]
    if len(kept) == len(content):
        return message
    return {**as_object(message), "content": kept} if kept else None


def refuse_dated(body: JsonObject, raw: bytes, version: str) -> None:
    """Refuse what the caller's API version no longer allows. `raw` is the body's bytes.

    Versions are dates; others, such as a cloud's own, are left to the target.
    """
    if version < _STRICTER or not version[:1].isdigit():
        return
    for name in _GONE_FIELDS:
        if body.get(name) is not None:
            raise _refusal(name, version)
    messages = body.get("messages")
    if holds(raw, messages, b"document") or holds(raw, messages, b"citations"):
        for index, message in enumerate(map(as_object, as_list(messages))):
            _refuse_blocks(message, f"messages[{index}].content", version)


def _refuse_blocks(message: JsonObject, where: str, version: str) -> None:
    """Refuse documents in assistant messages and citations in user texts."""
    for index, block in enumerate(map(as_object, as_list(message.get("content")))):
        place = f"{where}[{index}]"
        if message.get("role") == "assistant":
            if block.get("type") == "document":
                raise _refusal(place, version, 'a block of type "document" is ')
            continue
        _refuse_citations(block, place, version)
        if block.get("type") == "search_result":
            for inner, part in enumerate(as_list(block.get("content"))):
                _refuse_citations(part, f"{place}.content[{inner}]", version)


def _refuse_citations(block: Json, where: str, version: str) -> None:
    text = as_object(block)
    if text.get("type") == "text" and text.get("citations"):
        raise _refusal(f"{where}.citations", version)


def _refusal(where: str, version: str, what: str = "") -> BadRequest:
    words = f"{where}: {what}not permitted in {VERSION} {version[:40]}. Leave it out, or send an older version"
    return BadRequest(words, param=where)
