"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, one session each."""

import re
from collections.abc import Iterator
from pathlib import Path

from router.contract.request import Json, JsonObject, Message
from router.dialects.fields import as_list, as_object, as_text
from router.past.history import PastSession, SessionBuilder
from router.past.logs.lines import Tally, as_count, read_objects, read_time, texts_in
from router.sessions.clients import CLIENTS
from router.sessions.words import words_of

_CLIENT = next(client for client in CLIENTS if client.name == "codex")
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_PATCH_MARK = "*** Begin Patch"
_NO_ASK = re.compile(rb'"(?:event_msg|turn_context|reasoning|assistant|[a-z_]+_call(?:_output)?)"')
"""Signs that a broken line is not an ask."""


def looks_like(first: JsonObject) -> bool:
    """Whether the first object is Codex's: today's envelope, or bare items of early versions."""
    return "payload" in first or ("instructions" in first and "id" in first) or first.get("record_type") == "state"


def read(path: Path, tally: Tally) -> Iterator[PastSession]:
    """The session of a rollout file, unless a subagent's."""
    scribe = SessionBuilder(path.stem, _CLIENT.name)
    for line in read_objects(path, tally, lambda broken: None if _NO_ASK.search(broken) else scribe.lose()):
        at = read_time(line.get("timestamp"))
        payload = as_object(line.get("payload"))
        match line.get("type"):
            case "session_meta":
                if "subagent" in as_object(payload.get("source")) or payload.get("thread_source") == "subagent":
                    tally.side_sessions += 1
                    return
                scribe.session_id = as_text(payload.get("id")) or scribe.session_id
            case "turn_context":
                _note_context(scribe, payload)
            case "response_item":
                _note_item(scribe, payload, at)
            case "compacted":
                scribe.compact()
            case "event_msg":
                _note_event(scribe, payload)
            case _ if "payload" not in line:
                _note_item(scribe, line, at)
    yield from scribe.close()


def _note_context(scribe: SessionBuilder, context: JsonObject) -> None:
    mode = as_object(context.get("collaboration_mode"))
    effort = context.get("effort") or as_object(mode.get("settings")).get("reasoning_effort")
    scribe.model = as_text(context.get("model")) or scribe.model
    scribe.effort = as_text(effort) or None
    scribe.is_planning = mode.get("mode") == "plan"


def _note_item(scribe: SessionBuilder, item: JsonObject, at: float | None) -> None:
    kind = as_text(item.get("type"))
    if kind == "message":
        texts = texts_in(item.get("content"))
        if item.get("role") == "user" and (words := words_of(Message("user", texts), _CLIENT)):
            scribe.ask(words, at)
        elif item.get("role") != "user" or texts:
            scribe.hear(sum(map(len, texts)), at, is_answer=item.get("role") == "assistant")
    elif kind in _CALLS:
        arguments = as_text(item.get("arguments")) or as_text(item.get("input"))
        name = as_text(item.get("name")) or kind
        # A patch inside a shell command edits files too.
        edits = True if _PATCH_MARK in arguments else None
        scribe.call(name, at, call_id=as_text(item.get("call_id")), edits=edits)
        scribe.hear(len(arguments), at, is_answer=True)
    elif kind in _OUTPUTS:
        scribe.hear(_length(item.get("output")), at)


def _note_event(scribe: SessionBuilder, event: JsonObject) -> None:
    if event.get("type") == "turn_aborted":
        scribe.interrupt()
    elif event.get("type") == "token_count":
        usage = as_object(as_object(event.get("info")).get("last_token_usage"))
        scribe.count(as_count(usage.get("input_tokens")))


def _length(output: Json) -> int:
    if isinstance(output, dict):
        return len(as_text(output.get("content")))
    return len(output) if isinstance(output, str) else sum(map(len, texts_in(as_list(output))))
