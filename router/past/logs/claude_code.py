"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, one session each."""

import re
from collections.abc import Iterator
from pathlib import Path

from router.contract.request import JsonObject, Message
from router.dialects.fields import as_list, as_object, as_text
from router.past.history import PastSession, SessionBuilder
from router.past.logs.lines import Tally, as_count, length_of, read_objects, read_time, texts_in
from router.sessions.clients import CLIENTS
from router.sessions.words import words_of

_CLIENT = next(client for client in CLIENTS if client.name == "claude-code")
_INTERRUPTED = "[Request interrupted by user"
_OWN_COMMAND = ("<bash-input>", "<bash-stdout>", "<bash-stderr>")
"""Commands that the person ran, and their output: not asks."""
_NO_ASK = re.compile(rb'"(?:tool_result|tool_use|assistant|system|summary|api-request|toolUseResult)"')
"""Signs that a broken line is not an ask."""
_USED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def looks_like(first: JsonObject) -> bool:
    return "sessionId" in first or "parentUuid" in first or first.get("type") == "summary"


def read(path: Path, tally: Tally) -> Iterator[PastSession]:
    """The session of a project log. Sidechain lines are a subagent's."""
    scribe = SessionBuilder(path.stem, _CLIENT.name)
    is_side = False
    for line in read_objects(path, tally, lambda broken: None if _NO_ASK.search(broken) else scribe.lose()):
        if line.get("isSidechain"):
            is_side = True
        elif line.get("type") == "user":
            _note_user(scribe, line)
        elif line.get("type") == "assistant":
            _note_answer(scribe, line)
        elif line.get("type") == "api-request":
            effort = as_object(as_object(line.get("params")).get("output_config")).get("effort")
            scribe.effort = as_text(effort) or None
        elif line.get("subtype") == "compact_boundary":
            scribe.compact()
    sessions = scribe.close()
    yield from sessions
    tally.side_sessions += is_side and not sessions


def _note_user(scribe: SessionBuilder, line: JsonObject) -> None:
    at, content = read_time(line.get("timestamp")), as_object(line.get("message")).get("content")
    results = [as_object(block) for block in as_list(content) if as_object(block).get("type") == "tool_result"]
    for result in results:
        scribe.hear(sum(map(len, texts_in(result.get("content")))), at)
    texts = texts_in(content)
    if line.get("isCompactSummary"):
        scribe.compact()
    if any(text.startswith(_INTERRUPTED) for text in texts):
        scribe.interrupt()
        return
    words = words_of(Message("user", texts), _CLIENT)
    if words and not results and not line.get("isMeta") and not line.get("isCompactSummary"):
        if not words.startswith(_OWN_COMMAND):
            scribe.ask(words, at)
            scribe.is_planning = line.get("permissionMode") == "plan"
    else:
        scribe.hear(sum(map(len, texts)), at)


def _note_answer(scribe: SessionBuilder, line: JsonObject) -> None:
    """One block of an answer: Claude Code writes each on its own line, repeating the usage."""
    at, message = read_time(line.get("timestamp")), as_object(line.get("message"))
    usage = as_object(message.get("usage"))
    if line.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
        return
    scribe.model = as_text(message.get("model")) or scribe.model
    scribe.count(sum(as_count(usage.get(name)) for name in _USED))
    for value in as_list(message.get("content")):
        block = as_object(value)
        if block.get("type") == "tool_use":
            scribe.call(as_text(block.get("name")), at, call_id=as_text(block.get("id")))
            scribe.hear(length_of(block.get("input")), at, is_answer=True)
        elif block.get("type") == "text":
            scribe.hear(len(as_text(block.get("text"))), at, is_answer=True)
