"""aider: `.aider.chat.history.md`, all sessions of a project in one file."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from router.past.history import PastSession, SessionBuilder
from router.past.logs.lines import Tally, as_count, read_texts

_START = "# aider chat started at "
_ASKING_COMMANDS = ("/ask ", "/code ", "/architect ")
"""Commands followed by words for the model; others are for aider itself."""
_TOKENS = re.compile(r"^> (?:Tokens: )?([0-9][0-9,]*(?:\.[0-9]+)?)(k|M)? (?:sent|prompt tokens)\b")
_MODEL = re.compile(r"^> (?:Main model|Models?): (\S+)")
_EDIT = "> Applied edit to "
_INTERRUPTED = "> ^C"
_SCALES = {"k": 1_000, "M": 1_000_000}


def looks_like(head: str) -> bool:
    return any(line.startswith(_START) for line in head.splitlines()[:20])


def read(path: Path, tally: Tally) -> Iterator[PastSession]:
    """Sessions of a history file. Its only times are aider's starts."""
    scribe: SessionBuilder | None = None
    at: float | None = None
    asked: list[str] = []
    answers = 0
    for line in read_texts(path, tally):
        if line.startswith(_START):
            yield from _end(scribe, asked, at)
            at, asked = _read_start(line), []
            scribe = SessionBuilder(f"{path.parent.name}:{line.removeprefix(_START).strip()}", "aider")
        elif scribe is None:
            continue
        elif line.startswith("#### ") and line.endswith("  "):
            # aider ends each line of the person with two spaces: a model's heading has none.
            asked.append(line[4:].strip())
        else:
            if asked:
                _ask(scribe, asked, at)
                asked, answers = [], 0
            answers += _note(scribe, line, answers)
    yield from _end(scribe, asked, at)


def _end(scribe: SessionBuilder | None, asked: list[str], at: float | None) -> Iterator[PastSession]:
    if scribe is not None:
        _ask(scribe, asked, at)
        yield from scribe.close()


def _ask(scribe: SessionBuilder, asked: list[str], at: float | None) -> None:
    words = "\n".join(asked).strip()
    for command in _ASKING_COMMANDS:
        words = words.removeprefix(command)
    if words and not words.startswith(("/", "!")):
        scribe.ask(words, at)


def _note(scribe: SessionBuilder, line: str, answers: int) -> int:
    """One following line. Returns 1 at the end of an answer: a second answer to one ask is a further call."""
    tokens = _TOKENS.match(line)
    if tokens:
        scribe.count(as_count(float(tokens.group(1).replace(",", "")) * _SCALES.get(tokens.group(2) or "", 1)))
        if answers:
            scribe.call("reflection")
        scribe.hear(0, is_answer=True)
        return 1
    if line.startswith(_EDIT):
        scribe.call("apply_edit")
    elif line.startswith(_INTERRUPTED):
        scribe.interrupt()
    elif model := _MODEL.match(line):
        scribe.model = model.group(1)
    elif not line.startswith(">"):
        scribe.hear(len(line), is_answer=bool(line.strip()))
    return 0


def _read_start(line: str) -> float | None:
    try:
        return datetime.fromisoformat(line.removeprefix(_START).strip()).timestamp()  # aider writes local time
    except (ValueError, OverflowError, OSError):
        return None
