"""A text in numbers, for training and serving. Of a long one both ends are read: a book costs no more than a page."""

import math
import re
from functools import lru_cache

from router.contract.features import MARKS, SHOWN_CHARS, Features, steps_of
from router.sense.claims import PARTS_OF_CLAIMS, drop_claims
from router.sense.lexicon import asks_for_nothing
from router.sense.shape import count_marks, is_red
from router.sense.vocabulary import read_words

_HEAD_CHARS, _TAIL_CHARS = 600, 300
_MAX_TYPED = 2_000
"""Claims are looked for in this much of either end."""
_SHORT_CHARS = 100
"""Longer texts have a task of their own."""
_WORD = re.compile(r"\w+")
_GAPS = bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).ljust(256)
"""Parts ASCII words as `_WORD` does, in a tenth of the time."""
_LEAST_CHARS, _LEAST_LINES = 160, 3
_PASTED = re.compile(
    r"\s*(?:"
    r"[\[(]?\d{4}-\d\d-\d\d|[\[(]?\d\d:\d\d:\d\d"  # a time, as in a log
    r"|(?:\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|NOTICE)\b)"
    r"|(?:at |File \"|from |#\d+ )\S+.*(?:line \d+|:\d+)|Traceback |Caused by:|\.\.\. \d+ more"
    r"|[+-]{3} |@@ |diff --git |index [0-9a-f]{6}"
    r"|<[/!a-zA-Z][^>]*>|DOM Path:|Position: |React Component:|HTML Element:"
    r"|[\w.-]+@[\w.-]+:\S*[$#] |\$ |>>> |npm (?:ERR!|WARN)|\w+(?:Error|Exception)\b:"
    r"|[}\])]+[;,)]*\s*$|\S+:\d+:\d+|[|+][-=+| ]{3,}|(?:=+|-+|\*+) ?\S.*(?:===|---)"
    r")"
)
_SIGNS = re.compile(r"[{}\[\]()=<>;|\\/$_@#*&^%~`\"]|0x|::|->")
_MAX_SIGNS = 0.12
"""Above this share of such signs, a line is code or output."""


@lru_cache(maxsize=512)
def read_features(text: str) -> Features:
    """Cached: a tool loop repeats the person's words on every call."""
    whole = _ends(text.strip(), _MAX_TYPED, _MAX_TYPED)
    typed, pasted = own_words(whole)
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
    length = len(text) if len(text) > 2 * _MAX_TYPED and not pasted else len(typed)
    return Features(
        pieces=tuple({*pieces}),
        marks=steps_of(MARKS, (*count_marks(shown, lower, len(words), length, hints), pasted, is_red(whole))),
        length=math.log1p(min(length, SHOWN_CHARS)) / 3 - 1,
        concepts=tuple(concepts),
        has_task=not asks_for_nothing(words),
        is_short=len(text) <= _SHORT_CHARS,
    )


def own_words(text: str) -> tuple[str, int]:
    """The text without pasted lines, and their number: a log says little of the task's size."""
    if len(text) < _LEAST_CHARS or text.count("\n") < _LEAST_LINES:
        return text, 0
    kept: list[str] = []
    pasted, is_fenced = 0, False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
            pasted += 1
        elif is_fenced or _is_pasted(line):
            pasted += 1
        else:
            kept.append(line)
    own = "\n".join(kept).strip()
    return (own, pasted) if pasted >= _LEAST_LINES and len(own.split()) > 1 else (text, 0)


def _is_pasted(line: str) -> bool:
    if not line or line.isspace():
        return False
    if line.startswith(("    ", "\t")) and not line.lstrip().startswith(("-", "*", "•")):
        return True
    return _PASTED.match(line) is not None or len(_SIGNS.findall(line)) > _MAX_SIGNS * len(line)


def shown_words(text: str) -> str:
    return _ends(drop_claims(own_words(_ends(text.strip(), _MAX_TYPED, _MAX_TYPED))[0]), _HEAD_CHARS, _TAIL_CHARS)


def _ends(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


def _split(lower: str) -> list[str]:
    return lower.encode().translate(_GAPS).decode().split() if lower.isascii() else _WORD.findall(lower)
