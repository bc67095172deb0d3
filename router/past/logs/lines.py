"""Reads foreign files of any size line by line, counting what is unreadable."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text

_MAX_LINE_BYTES = 32 << 20
_MAX_COUNT = 10**9
_MAX_SECONDS = 1e11
"""Larger counts or times are errors in the log, and ignored."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Tally:
    files: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    unknown_files: int = 0
    unreadable_files: int = 0
    broken_lines: int = 0
    repeated_turns: int = 0
    """Turns repeated in a resumed session's file."""
    side_sessions: int = 0
    """A client's own sessions, such as subagents."""
    advance: Callable[[int], None] = lambda _: None
    """Called with the bytes of each piece read."""


def read_lines(path: Path, tally: Tally) -> Iterator[bytes]:
    """An excessively long line is skipped and counted."""
    with path.open("rb") as file:
        if file.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
            tally.advance(len(_BYTE_ORDER_MARK))
        else:
            file.seek(0)
        while line := file.readline(_MAX_LINE_BYTES):
            tally.advance(len(line))
            if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
                tally.broken_lines += 1
                while (rest := file.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    tally.advance(len(rest))
                continue
            yield line


def read_objects(path: Path, tally: Tally, lose: Callable[[bytes], None] = lambda _: None) -> Iterator[JsonObject]:
    """One object per line. Others, such as a half-written line, are counted and passed to `lose`."""
    for line in read_lines(path, tally):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            tally.broken_lines += 1
            lose(line)
            continue
        if isinstance(value, dict):
            yield value
        else:
            tally.broken_lines += 1


def read_time(value: Json) -> float | None:
    """Seconds since 1970 of an ISO time or a number; else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value) / (1_000 if value > _MAX_SECONDS else 1)
        return seconds if abs(seconds) <= _MAX_SECONDS else None
    if not isinstance(value, str) or not value:
        return None
    try:
        at = datetime.fromisoformat(value.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def as_count(value: Json) -> int:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0
    return int(value) if 0 <= value <= _MAX_COUNT else 0


def length_of(value: Json) -> int:
    """Length when written out; 0 if nested too deeply."""
    try:
        return len(str(value)) if value else 0
    except RecursionError:
        return 0


def texts_in(content: Json) -> tuple[str, ...]:
    """Text blocks of a message's content, by any API's name for them."""
    if isinstance(content, str):
        return (content,)
    return tuple(text for block in as_list(content) if (text := as_text(as_object(block).get("text"))))
