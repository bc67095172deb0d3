"""A text in numbers, for the trained reading: what the person typed, and its shape.

All that was typed is read, without the lines that were pasted; of a text longer than 900 characters its first 600 and last 300,
so that a book costs no more than a page. Training and serving both call this.
"""

import math
import re
from functools import lru_cache

from router.contract.features import MARKS, SHOWN_CHARS, Features, steps_of
from router.sense.claims import PARTS_OF_CLAIMS, drop_claims
from router.sense.lexicon import asks_for_nothing
from router.sense.pasted import own_words
from router.sense.shape import count_marks, is_red
from router.sense.vocabulary import read_words

_HEAD_CHARS, _TAIL_CHARS = 600, 300
_MAX_TYPED = 2_000
"""Claims are looked for in no more than this of either end."""
_SHORT_CHARS = 100
"""Longer words have a task of their own."""
_WORD = re.compile(r"\w+")
_GAPS = bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).ljust(256)
"""What parts words in plain text: the same as `_WORD`, at a tenth of the time."""


@lru_cache(maxsize=512)
def read_features(text: str) -> Features:
    """Measure a text. The same words are measured once: a tool loop repeats them on every call."""
    whole = _ends(text.strip(), _MAX_TYPED, _MAX_TYPED)
    typed, pasted = own_words(whole)
    shown = _ends(typed, _HEAD_CHARS, _TAIL_CHARS)
    lower = shown.lower()
    words = _split(lower)
    pieces, concepts, hints = read_words(words)
    # The words were read with the claims that may be among them: most texts have none, and then this was the only pass.
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


def shown_words(text: str) -> str:
    """What is read of a text: 900 characters of it at most, without what was pasted or claims a tier."""
    return _ends(drop_claims(own_words(_ends(text.strip(), _MAX_TYPED, _MAX_TYPED))[0]), _HEAD_CHARS, _TAIL_CHARS)


def _ends(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


def _split(lower: str) -> list[str]:
    return lower.encode().translate(_GAPS).decode().split() if lower.isascii() else _WORD.findall(lower)
