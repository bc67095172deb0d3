"""TOML: settings at the top of the file in one marked block, tables at its end in another."""

import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from router.connect import marks
from router.connect.formats import CannotEdit, Memo, Piece, Put, includes

Path = tuple[str, ...]
Table = dict[str, object]


def put(text: str | None, piece: Piece) -> Put:
    """Add the piece's `top` and `end`. Settings of the same name that the file has are kept as comments."""
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
    """Whether our blocks are there, and all that we want is set."""
    wanted = tomllib.loads(f"{piece.get('top', '')}\n{piece.get('end', '')}")
    return marks.has_block(text) and includes(_read(text), wanted, tiers)


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """Remove the blocks."""
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
    """What the file should say with ours in it."""
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
    """Whole lines that set something, and the full path of what they set. A table's header sets the table."""

    start: int
    stop: int
    path: Path


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a valid text."""
    place, table = 0, Path()
    while place < len(text):
        stop = _end_of_statement(text, place)
        words = text[place:stop].strip()
        if words.startswith("["):
            table = _path_of(words)
            yield _Statement(place, stop, table)
        elif words and not words.startswith("#"):
            yield _Statement(place, stop, table + _path_of(f"{words[: _equals_in(words)]}= 0"))
        place = stop


def _path_of(line: str) -> Path:
    """The path that one statement sets."""
    inner: object = tomllib.loads(line)
    path: Path = ()
    while inner:
        if isinstance(inner, list):
            inner = inner[0]
        elif isinstance(inner, dict):
            (key, inner), *_ = inner.items()
            path = (*path, key)
        else:
            break
    return path


def _equals_in(words: str) -> int:
    """Where the key ends: the first `=` that is outside quotes."""
    quote = ""
    for place, letter in enumerate(words):
        if letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and letter == "=":
            return place
    return len(words)


def _end_of_statement(text: str, place: int) -> int:
    """After the line's end that no string and no bracket holds open."""
    depth, quote = 0, ""
    while place < len(text):
        letter = text[place]
        if quote:
            if letter == "\\" and quote[0] == '"':
                place += 1
            elif text.startswith(quote, place):
                place += len(quote) - 1
                # Up to two quotes more may belong to a string of several lines.
                while len(quote) == 3 and text.startswith(quote[0], place + 1):
                    place += 1
                quote = ""
        elif letter in "\"'":
            quote = letter * 3 if text.startswith(letter * 3, place) else letter
            place += len(quote) - 1
        elif letter == "#":
            place = text.find("\n", place)
            place = len(text) if place < 0 else place
            continue
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "\n" and depth <= 0:
            return place + 1
        place += 1
    return len(text)
