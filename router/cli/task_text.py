"""The text of a delegated task, with its files quoted: it has no tools."""

import re
from collections.abc import Sequence
from pathlib import Path

from router.contract.request import JsonObject

MOST_FILE_BYTES = 512 * 1024
MOST_BYTES = 2 * 1024 * 1024
"""Task and files together."""
_INSTRUCTIONS = (
    "You work on this task in the background, and nobody can answer questions meanwhile. You have no tools: you cannot run"
    " commands, and you know only the files and facts that are quoted here. Think it through and answer completely in one"
    " message. Where something is missing, say what you assumed."
)
_TICKS = re.compile(r"`{3,}")


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
