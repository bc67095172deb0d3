"""Delegated work: the text of a task, whose session it is, and its job at a running router.

After `Jobs.read` or `Jobs.follow`, a job is not restarted after a crash.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from router.cli.asking import Refused, Unreachable, ask, ask_object, explained_errors
from router.cli.feed_reader import read_events
from router.contract.job import FINAL
from router.contract.request import JsonObject, objects_in
from router.dialects.overrides import JOB_SESSION

_ASK_SECONDS = 20.0
_SILENCE_SECONDS = 40.0
"""The router sends a comment every 15 seconds: longer silence means a lost connection."""
_ENDS = frozenset(f"response.{state}" for state in FINAL)
_CODEX, _CLAUDE_CODE = "codex", "claude-code"
_VARIABLES = {"CODEX_THREAD_ID": _CODEX, "CLAUDE_CODE_SESSION_ID": _CLAUDE_CODE}
MOST_FILE_BYTES = 512 * 1024
MOST_BYTES = 2 * 1024 * 1024
"""Task and files together."""
_INSTRUCTIONS = (
    "You work on this task in the background, and nobody can answer questions meanwhile. You have no tools: you cannot run"
    " commands, and you know only the files and facts that are quoted here. Think it through and answer completely in one"
    " message. Where something is missing, say what you assumed."
)
_TICKS = re.compile(r"`{3,}")


class Page(NamedTuple):
    """Newest first."""

    jobs: list[JsonObject]
    before: str | None


class Jobs:
    """All methods raise `Refused` and `Unreachable`."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url, self._key = url, key

    def start(self, body: JsonObject, session: str = "") -> JsonObject:
        """Start a request in the background; it is on disk when this returns. `session` is notified of its end."""
        more = {JOB_SESSION: session} if session else {}
        return self._ask("/v1/responses", json.dumps({**body, "background": True}).encode(), more)

    def read(self, job_id: str) -> JsonObject:
        return self._ask(f"/v1/responses/{quote(job_id, safe='')}")

    def cancel(self, job_id: str) -> JsonObject:
        return self._ask(f"/v1/responses/{quote(job_id, safe='')}/cancel", b"")

    def cancel_others(self, job_id: str, caller: str) -> JsonObject:
        """Cancel another caller's job, as an admin. Returns its state, without its answer."""
        return self._ask(f"/tandem/jobs/{quote(job_id, safe='')}/cancel?{urlencode({'caller': caller})}", b"")

    def find(self, job_id: str) -> JsonObject:
        """A job's state, without its answer."""
        return self._ask(f"/tandem/jobs/{quote(job_id, safe='')}")

    def find_owner(self, job_id: str) -> str:
        """The owner of a job that only admins see; empty without one."""
        with contextlib.suppress(Refused, Unreachable):
            return str(self.find(job_id).get("caller") or "")
        return ""

    def list_jobs(self, state: str | None = None, limit: int = 20, before: str | None = None) -> Page:
        asked = {"state": state, "limit": limit, "before": before}
        told = self._ask(f"/tandem/jobs?{urlencode({name: value for name, value in asked.items() if value is not None})}")
        after = told.get("before")
        return Page(objects_in(told.get("data")), str(after) if after else None)

    def follow(self, job_id: str, after: int = -1) -> Iterator[tuple[str, JsonObject]]:
        """The events after a number, until the job or the connection ends."""
        after_it = f"&starting_after={after}" if after >= 0 else ""
        path = f"/v1/responses/{quote(job_id, safe='')}?stream=true{after_it}"
        with explained_errors(), ask(self.url, path, within_seconds=_SILENCE_SECONDS, key=self._key) as lines:
            for name, _, event in read_events(lines):
                yield name or str(event.get("type", "")), event

    def _ask(self, path: str, body: bytes | None = None, more: Mapping[str, str] | None = None) -> JsonObject:
        return ask_object(self.url, path, body, within_seconds=_ASK_SECONDS, key=self._key, more=more)


def is_over(job: JsonObject) -> bool:
    return str(job.get("status") or job.get("state")) in tuple(map(str, FINAL))


def is_end(event: str) -> bool:
    return event in _ENDS


def text_of(response: JsonObject) -> str:
    parts = (part for item in objects_in(response.get("output")) for part in objects_in(item.get("content")))
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def why_it_ended(response: JsonObject) -> str:
    """Empty if not stated."""
    error, details = response.get("error"), response.get("incomplete_details")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("reason") or error.get("code") or "")
    return str(details.get("reason") or "") if isinstance(details, dict) else ""


def find_agent_session(sent: Mapping[str, object] | None = None) -> str:
    """The session of the coding agent that runs a command or calls a tool, by the router's name for it; empty if unknown.

    Codex sends its thread with each tool call (`sent`, its `_meta`) and sets it for shell commands. Claude Code sets its
    session for both. If both variables are set, one agent started the other, and the caller is ambiguous.
    """
    thread = (sent or {}).get("threadId")
    found = [f"{client}:{value}" for name, client in _VARIABLES.items() if (value := os.environ.get(name))]
    session = f"{_CODEX}:{thread}" if isinstance(thread, str) and thread else found[0] if len(found) == 1 else ""
    return session if len(session) <= 200 and session.isascii() and session.isprintable() else ""


class TaskRefused(Exception):
    """A task or file cannot be sent."""


class TaskTooLong(TaskRefused):
    pass


def write_request(task: str, quoted: Sequence[tuple[str, str]] = (), tier: str | None = None) -> JsonObject:
    """Raises `TaskRefused`."""
    if not task.strip():
        raise TaskRefused("the task is empty")
    text = "\n\n".join([task.strip(), *(_quote(name, content) for name, content in quoted)])
    if (size := len(text.encode())) > MOST_BYTES:
        raise TaskTooLong(f"the task and its files are too long: {size:,} bytes, and at most {MOST_BYTES:,} can be sent")
    return {"model": tier or "auto", "instructions": _INSTRUCTIONS, "input": text}


def read_file(path: Path) -> tuple[str, str]:
    """Raises `TaskRefused`."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise TaskRefused(f"{path} cannot be read: {error.strerror or error}") from error
    if len(raw) > MOST_FILE_BYTES:
        size = path.stat().st_size
        raise TaskTooLong(f"{path} is too long: {size:,} bytes, and at most {MOST_FILE_BYTES:,} of a file can be sent")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskRefused(f"{path} is not text in UTF-8") from error
    if "\0" in text:
        raise TaskRefused(f"{path} is not text")
    return str(path), text


def _quote(name: str, content: str) -> str:
    """Fences are longer than any in the text."""
    fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(content)), default=2))
    return f"{name}:\n{fence}\n{content.rstrip(chr(10))}\n{fence}"
