"""TOML: settings in a marked block at the top, tables in one at the end."""

import tomllib
from collections.abc import Iterator
from io import StringIO
from typing import NamedTuple

from router.connect import marks
from router.connect.formats import CannotEdit, Memo, Piece, Put, includes

Path = tuple[str, ...]
Table = dict[str, object]


def put(text: str | None, piece: Piece) -> Put:
    """Add the piece's `top` and `end`. Existing settings of those names are kept as comments."""
    top, end = piece.get("top", ""), piece.get("end", "")
    text = text or ""
    marks.check(text)
    before = _read(text)
    ours = _leaves(tomllib.loads(top)) + _leaves(tomllib.loads(end))
    for statement in reversed(list(_statements(text))):
        if any(statement.path[: len(path)] == path for path in ours):
            text = marks.keep(text, statement.start, statement.stop)
    text = marks.add_last(text, end) if end else text
    text = marks.add_first(text, top) if top else text
    if _read(text) != _overlay(before, tomllib.loads(f"{top}\n{end}"), ours):
        raise CannotEdit(
            "its settings are written in a way that leaves no room for ours: add them by hand (--print shows them)"
        )
    return Put(text, marks.note(top, end))


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    wanted = tomllib.loads(f"{piece.get('top', '')}\n{piece.get('end', '')}")
    return marks.has_block(text) and includes(_read(text), wanted, tiers)


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    return (marks.remove(text, memo, "=") if marks.has_block(text) else text), ()


def _read(text: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(f"this is not valid TOML: {error}") from error


def _leaves(table: Table) -> list[Path]:
    """What is replaced as a whole: plain settings, and tables that hold some."""
    found: list[Path] = []
    for key, value in table.items():
        if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
            found += [(key, *path) for path in _leaves(value)]
        else:
            found.append((key,))
    return found


def _overlay(before: Table, ours: Table, paths: list[Path]) -> Table:
    for path in paths:
        holder, source = before, ours
        for key in path[:-1]:
            inner, given = holder.setdefault(key, {}), source[key]
            if not isinstance(inner, dict) or not isinstance(given, dict):
                raise CannotEdit(f"{'.'.join(path)} is something else than a table")
            holder, source = inner, given
        holder[path[-1]] = source[path[-1]]
    return before


class _Statement(NamedTuple):
    """Whole lines and the full path of what they set."""

    start: int
    stop: int
    path: Path


def _statements(text: str) -> Iterator[_Statement]:
    """Each statement takes lines until they are valid on their own."""
    start, table, lines = 0, Path(), ""
    for line in StringIO(text, newline="\n"):
        lines += line
        try:
            path = _path_of(tomllib.loads(lines))
        except tomllib.TOMLDecodeError:
            continue  # inside a multi-line string or array
        stop = start + len(lines)
        if lines.lstrip().startswith("["):
            table = path
        if path:
            yield _Statement(start, stop, path if path is table else table + path)
        start, lines = stop, ""


def _path_of(setting: object) -> Path:
    """The path of the only setting in a table, or of an empty table."""
    path: Path = ()
    while isinstance(setting, dict) and len(setting) == 1:
        ((key, setting),) = setting.items()
        path = (*path, key)
        setting = setting[0] if setting == [{}] else setting
    return path
