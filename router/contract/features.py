"""Features of a text, as numbers: computed by `sense`, weighed by the trained reading, fitted by `tests.lab`."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TABLE_BITS = 18
TABLE_SIZE = 1 << TABLE_BITS
"""Places in the table of weights: one for each word, and each pair of words."""
OFFER_SIZE = 1 << 16
"""Places in the table for what an assistant offers: there is less to learn it from."""
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
"""Scripts that do not part words by spaces, or build them of syllables: read by pairs of characters."""
SHOWN_CHARS = 3_000
"""Longer texts count as this long."""
SHORT_CHARS = 100
"""Longer words have a task of their own: they do not point back."""

MARKS: Mapping[str, tuple[int, ...]] = {
    "words": (2, 3, 4, 6, 8, 11, 15, 20, 28, 40, 60, 90, 140),
    "characters": (8, 15, 25, 40, 60, 90, 130, 200, 300, 500, 900, 1_500, SHOWN_CHARS),
    "files": (1, 2, 3, 4),
    "commas": (1, 2, 3, 4, 5, 6),
    "lines": (1, 2, 4, 8, 15, 30),
    "list_items": (1, 2, 3, 4, 5, 6),
    "ticks": (2, 4, 6, 8),
    "urls": (1, 2),
    "camel_case": (1, 2, 3, 4),
    "underscores": (1, 2, 3),
    "brackets": (1, 3, 8, 16),
    "slashes": (1, 2, 3, 4),
    "quotes": (1, 2, 3, 4, 5),
    "sentences": (1, 2, 3, 4, 5),
    "colons": (1, 2, 3),
    "questions": (1, 2, 3),
    "ends_with_question": (1,),
    "code_fence": (1,),
    "trace": (1,),
    "arrow": (1,),
    "line_numbers": (1, 2, 3),
    "pasted_lines": (1, 8, 25),
    "red_output": (1,),
    "pasted_code": (1, 8, 25),
    "pasted_log": (1, 8, 25),
    "pasted_diff": (1, 8, 25),
}
"""What is counted in a text, and the counts at which the next step begins."""

Concept = tuple[str, tuple[int, ...], int]
"""Our phrase for an idea, the pieces that named it in any language, and their pair with what comes before."""


class Features(NamedTuple):
    """A text in numbers that reveal nothing of it. `pieces` are distinct places, `length` is a logarithm."""

    pieces: tuple[int, ...]
    marks: tuple[int, ...]
    length: float
    concepts: tuple[Concept, ...] = ()
    has_task: bool = True
    """False for a greeting, thanks or "ok"."""
    is_short: bool = True
    """Whether it is short enough to lean on earlier turns."""


class Offer(NamedTuple):
    """The part of the assistant's last message that a reply takes up."""

    features: Features
    """Its places are folded into `OFFER_SIZE`."""
    number: int
    """The largest count it names: "all 40 pages"."""
    is_question: bool
    """Whether the message ends by asking."""


def fold_places(features: Features) -> Features:
    """Features for the smaller table of offers."""
    return features._replace(pieces=tuple(sorted({place % OFFER_SIZE for place in features.pieces})))


def steps_of(kinds: Mapping[str, Sequence[int]], counts: Sequence[float]) -> tuple[int, ...]:
    return tuple(map(bisect_right, kinds.values(), counts))
