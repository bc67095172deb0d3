"""Short texts that match a simple regular expression."""

import re
from re import _constants as codes  # type: ignore[attr-defined]  # private, and in no stub: Python has no other parser of patterns
from re import _parser as patterns  # type: ignore[attr-defined]
from typing import Any

ANY_TEXT = "simulated"
_MAX_CHARS = 10_000
_CLASSES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}
_LIKELY_CHARS = "0aA -_.x"


def text_for(pattern: str, least: int = 0) -> str:
    """A short text that matches a pattern, or any text for a complex one.

    It is built from the pattern's parts and not tested: a caller's pattern could take years to match.
    """
    try:
        parts = patterns.parse(pattern)
        text = _write_parts(parts, 0)
        return text if len(text) >= least else _write_parts(parts, least)
    except (re.error, NotImplementedError, RecursionError, OverflowError):
        return ANY_TEXT


def _write_parts(parts: Any, repeats: int) -> str:
    return "".join(_write_part(part, repeats) for part in parts)


def _write_part(part: Any, repeats: int) -> str:
    code, value = part
    if code is codes.LITERAL:
        return chr(value)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        low, high, inner = value
        text, times = _write_parts(inner, 0), max(low, min(repeats, high))
        if len(text) * times > _MAX_CHARS:
            raise OverflowError
        return str(text * times)
    if code is codes.SUBPATTERN:
        return _write_parts(value[-1], repeats)
    if code is codes.BRANCH:
        return _write_parts(value[1][0], repeats)
    if code is codes.IN:
        return _write_member(value)
    if code is codes.ANY or code is codes.NOT_LITERAL:
        return "x" if value != ord("x") else "y"
    if code is codes.AT:
        return ""
    raise NotImplementedError


def _write_member(members: list[Any]) -> str:
    code, value = members[0]
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.RANGE:
        return chr(value[0])
    is_negated = code is codes.NEGATE
    allowed = re.compile(f"[{'^' if is_negated else ''}{''.join(map(_write_class, members[is_negated:]))}]")
    return next((char for char in _LIKELY_CHARS if allowed.match(char)), "x")


def _write_class(member: Any) -> str:
    code, value = member
    if code is codes.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return re.escape(chr(value)) if code is codes.LITERAL else _CLASSES[value]
