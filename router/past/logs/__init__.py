"""Logs that clients leave on disk: places, recognition, and a reader for each kind."""

import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from router.past.history import PastSession
from router.past.logs import claude_code, codex
from router.past.logs.lines import Tally, read_objects

_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_ODDITIES = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that a foreign file may cause."""
_BEGINNING_CHARS = 80
_Key = tuple[str, str, str, int]
"""Identity of a turn: client, session, beginning, and its second or its repetition."""
_READERS: dict[str, Callable[[Path, Tally], Iterator[PastSession]]] = {
    "codex": codex.read,
    "claude-code": claude_code.read,
}


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that may be a log."""

    path: Path
    size_bytes: int


def usual_places() -> tuple[Path, ...]:
    """In the home folder, or as configured."""
    home = Path(os.path.expanduser("~"))  # unlike `Path.home`, works without a home
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    return (codex / "sessions", codex / "archived_sessions", claude / "projects")


def find_logs(roots: Iterable[Path], tally: Tally) -> list[LogFile]:
    """Oldest first. Links are followed only directly below a place, so walks end."""
    found: dict[Path, tuple[float, LogFile]] = {}
    for root in roots:
        for path in _walk(root):
            try:
                real = path.resolve()
                state = real.stat()
            except (OSError, RuntimeError):
                tally.unreadable_files += 1
                continue
            if not stat.S_ISREG(state.st_mode):  # a pipe would block
                tally.unreadable_files += 1
                continue
            found.setdefault(real, (state.st_mtime, LogFile(path, state.st_size)))
    return [log for _, log in sorted(found.values(), key=lambda entry: (entry[0], str(entry[1].path)))]


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    yield from _walk_folder(root)
    for name in sorted(os.listdir(root)) if os.access(root, os.R_OK) else ():
        linked = root / name
        # A project's folder may be a link; one that leads back up would be walked twice.
        if linked.is_symlink() and linked.is_dir() and not root.resolve().is_relative_to(linked.resolve()):
            yield from _walk_folder(linked)


def _walk_folder(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root, followlinks=False):
        inner[:] = sorted(name for name in inner if name not in _PASSED_OVER)
        for name in sorted(names):
            if name.endswith(".jsonl"):
                yield Path(folder, name)


def read_logs(files: Iterable[LogFile], tally: Tally) -> Iterator[PastSession]:
    """Sessions of all files, one at a time, without turns of earlier files."""
    told: set[_Key] = set()
    for log in files:
        for session in _read_log(log.path, tally):
            fresh = _leave_out_told(session, told, tally)
            tally.sessions += any(not turn.is_repeated for turn in fresh.turns)
            yield fresh


def _read_log(path: Path, tally: Tally) -> list[PastSession]:
    """A fault costs only this file."""
    try:
        kind = recognise(path)
        sessions = list(_READERS[kind](path, tally)) if kind is not None else []
    except _ODDITIES:
        tally.unreadable_files += 1
        return []
    if kind is None:
        tally.unknown_files += 1
    else:
        tally.files[kind] = tally.files.get(kind, 0) + 1
    return sessions


def recognise(path: Path) -> str | None:
    """The client that left a file, by its first lines."""
    if path.suffix != ".jsonl":
        return None
    for first in islice(read_objects(path, Tally()), 5):
        if codex.looks_like(first):
            return "codex"
        if claude_code.looks_like(first):
            return "claude-code"
    return None


def _leave_out_told(session: PastSession, told: set[_Key], tally: Tally) -> PastSession:
    """Clients copy a session's start into its continuation.

    Turns are equal by second and beginning. They are also equal by session, words and repetition: old logs have no times.
    """
    repeated = set()
    said: Counter[str] = Counter()
    keys: list[_Key] = []
    for index, turn in enumerate(session.turns):
        beginning = " ".join(turn.words.split())[:_BEGINNING_CHARS]
        said[beginning] += 1
        own: list[_Key] = [(session.client, session.id, beginning, said[beginning])]
        if turn.at is not None:
            own.append((session.client, "", beginning, math.floor(turn.at)))
        if not told.isdisjoint(own):
            repeated.add(index)
        keys += own
    told.update(keys)
    if not repeated:
        return session
    tally.repeated_turns += len(repeated)
    # A repeated turn stays as history of later ones, uncounted.
    turns = tuple(replace(turn, is_repeated=index in repeated) for index, turn in enumerate(session.turns))
    return replace(session, turns=turns)
