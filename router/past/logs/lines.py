"""Reading other programs' files line by line, of any size, counting what cannot be read."""

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
"""A count or a time beyond these is an error of the log, and ignored."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Tally:
    """What was found, and what was skipped."""

    files: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    unknown_files: int = 0
    unreadable_files: int = 0
    broken_lines: int = 0
    repeated_turns: int = 0
    """Turns that a resumed session's file repeats."""
    side_sessions: int = 0
    """Sessions of a client's own, such as subagents: no turns of the person."""
    advance: Callable[[int], None] = lambda _: None
    """Told of every piece of a file that was read, in bytes."""


def read_lines(path: Path, tally: Tally) -> Iterator[bytes]:
    """The lines of a file. One beyond all reason is passed over and counted."""
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
    """The objects of a file with one on each line. What is no object, such as a line half written, is counted and lost."""
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


def read_texts(path: Path, tally: Tally) -> Iterator[str]:
    """The lines of a text, without their ends."""
    for line in read_lines(path, tally):
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def read_time(value: Json) -> float | None:
    """Seconds since 1970 of an ISO time, or of a number; None for anything else."""
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
    """How long a value is when it is written out. One that is nested beyond all reason counts as nothing."""
    try:
        return len(str(value)) if value else 0
    except RecursionError:
        return 0


def texts_in(content: Json) -> tuple[str, ...]:
    """The text blocks of a message's content, by any API's name for them."""
    if isinstance(content, str):
        return (content,)
    return tuple(text for block in as_list(content) if (text := as_text(as_object(block).get("text"))))
