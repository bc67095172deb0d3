"""A text in numbers, for training and serving. Of a long one both ends are read: a book costs no more than a page."""

import math
import re
from functools import lru_cache

from router.contract.features import MARKS, SHORT_CHARS, SHOWN_CHARS, Features, steps_of
from router.sense.claims import PARTS_OF_CLAIMS, drop_claims
from router.sense.lexicon import asks_for_nothing
from router.sense.shape import count_marks, is_red
from router.sense.vocabulary import read_words

_HEAD_CHARS, _TAIL_CHARS = 600, 300
_MAX_TYPED = 2_000
"""Claims are looked for in this much of either end."""
_WORD = re.compile(r"\w+")
_GAPS = bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).ljust(256)
"""Parts ASCII words as `_WORD` does, in a tenth of the time."""
_LEAST_CHARS, _LEAST_LINES = 160, 3
_PASTED = re.compile(
    r"\s*(?:"
    r"(?P<log>[\[(]?\d{4}-\d\d-\d\d|[\[(]?\d\d:\d\d:\d\d"  # a time
    r"|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|NOTICE)\b"
    r"|(?:at |File \"|from |#\d+ )\S+.*(?:line \d+|:\d+)|Traceback |Caused by:|\.\.\. \d+ more"
    r"|[\w.-]+@[\w.-]+:\S*[$#] |\$ |>>> |npm (?:ERR!|WARN|warn|error|notice)\b|\w+(?:Error|Exception)\b:|\S+:\d+:\d+"
    r"|(?:\d+[smhd]\w* +(?:\(x?\d[^)]*\) +)?)?(?:Normal|Warning) +[A-Z]\w+ )"  # an event of kubectl
    r"|(?P<diff>[+-]{3} |@@ |diff --git |index [0-9a-f]{6})"
    r"|(?P<code><[/!a-zA-Z][^>]*>|DOM Path:|Position: |React Component:|HTML Element:|[}\])]+[;,)]*\s*$"
    r"|[|+][-=+| ]{3,}|(?:=+|-+|\*+) ?\S.*(?:===|---))"
    r")"
)
_SIGNS = re.compile(r"[{}\[\]()=<>;|\\/$_@#*&^%~`\"]|0x|::|->")
_MAX_SIGNS = 0.12
"""Above this share of such signs, a line is code or output."""
_PASTES = ("code", "log", "diff")
_NO_PASTE = (0,) * len(_PASTES)


@lru_cache(maxsize=512)
def read_features(text: str) -> Features:
    """Cached: a tool loop repeats the person's words on every call."""
    whole = _ends(text.strip(), _MAX_TYPED, _MAX_TYPED)
    typed, pasted = part_pasted(whole)
    shown = _ends(typed, _HEAD_CHARS, _TAIL_CHARS)
    lower = shown.lower()
    words = _split(lower)
    pieces, concepts, hints = read_words(words)
    # Most texts have no claims, so the pass above is usually the only one.
    if (shown is not typed or "<|" in typed or not PARTS_OF_CLAIMS.isdisjoint(hints)) and (rest := drop_claims(typed)) != typed:
        typed, shown = rest, _ends(rest, _HEAD_CHARS, _TAIL_CHARS)
        lower = shown.lower()
        words = _split(lower)
        pieces, concepts, hints = read_words(words)
    length = len(text) if len(text) > 2 * _MAX_TYPED and not any(pasted) else len(typed)
    return Features(
        pieces=tuple({*pieces}),
        marks=steps_of(MARKS, (*count_marks(shown, lower, len(words), length, hints), sum(pasted), is_red(whole), *pasted)),
        length=math.log1p(min(length, SHOWN_CHARS)) / 3 - 1,
        concepts=tuple(concepts),
        has_task=not asks_for_nothing(words),
        is_short=len(text) <= SHORT_CHARS,
    )


def part_pasted(text: str) -> tuple[str, tuple[int, ...]]:
    """The text without pasted lines, and how many of these are code, a log and a diff."""
    if len(text) < _LEAST_CHARS or text.count("\n") < _LEAST_LINES:
        return text, _NO_PASTE
    kept: list[str] = []
    found: list[str] = []
    is_fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
            found.append("code")
        elif kind := _kind_of(line) or ("code" if is_fenced else ""):
            found.append(kind)
        else:
            kept.append(line)
    own = "\n".join(kept).strip()
    if len(found) < _LEAST_LINES or len(own.split()) < 2:
        return text, _NO_PASTE
    return own, tuple(map(found.count, _PASTES))


def _kind_of(line: str) -> str:
    """The kind of a pasted line; empty for one that was typed."""
    if not line or line.isspace():
        return ""
    if (found := _PASTED.match(line)) is not None:
        return found.lastgroup or "code"
    is_indented = line.startswith(("    ", "\t")) and not line.lstrip().startswith(("-", "*", "•"))
    return "code" if is_indented or len(_SIGNS.findall(line)) > _MAX_SIGNS * len(line) else ""


def _ends(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


def _split(lower: str) -> list[str]:
    return lower.encode().translate(_GAPS).decode().split() if lower.isascii() else _WORD.findall(lower)
