"""What the assistant's last message offers, for a reply that points back at it: "yes", "B", "the exporter too"."""

import re
from functools import lru_cache

from router.contract.features import Offer, fold_places
from router.sense.features import read_features

LEAST_OFFER = 16
"""Characters. A shorter message ("Done.") offers nothing."""
_TAIL_CHARS = 1_500
"""An offer is at a message's end."""
_LEAST_CHARS = 60
"""A last sentence shorter than this ("Shall I?") is read with what comes before it."""
_MAX_WORDS = 12
"""Longer replies select nothing by a letter or a number: "a" is then a word."""
_LEAST_WORD = 4
_STEM_CHARS = 5
_CUT = re.compile(
    r"\n+|\s(?:(?<=[^\W\d_]{2}[.!?]\s)|(?<=[)`\]\"'%][.!?]\s)|(?<=;\s)"  # not after "2." or "b."
    r"|(?=[(（]?[A-Da-dА-Га-г1-9][)）]\s)|(?=[A-ZА-Я]\s[—–:-]\s))"
)
_UNSPACED_CUT = re.compile(r"(?<=[。！？])|(?=[①-⑨])")
_ITEM = re.compile(r"\W*(?:[-*•]|\d{1,2}[.)]|[A-Da-d][.)])\s")
_KEY = re.compile(r"\W*(?:\w+ )?([A-Za-zА-Яа-я]|\d{1,2})[).:）、\s—–]")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(?<![\w./`#:-])(?<!\d,)(\d{1,3}(?:[.,]\d{3})+|\d{1,6})(?![.:/%`\d]\d?|,\d|[a-zA-Z%])")
_MAX_NUMBER = 100_000
_YEARS = range(1990, 2031)
_QUESTION_MARKS = ("?", "？", "؟")


@lru_cache(maxsize=512)
def read_offer(said: str, reply: str) -> Offer:
    """The part of a message that a reply takes up: the option it selects, the sentence that shares its words, or the end."""
    tail = said[-_TAIL_CHARS:]
    if not tail.isascii():
        tail = _UNSPACED_CUT.sub("\n", tail)
    parts = [part for part in map(str.strip, _CUT.split(tail)) if part]
    chosen = _select(parts, [word.lower() for word in _WORD.findall(reply)]) or _find_end(parts)
    text = " ".join(chosen)
    return Offer(
        features=fold_places(read_features.__wrapped__(text)),
        number=_find_number(text),
        is_question=said.rstrip().endswith(_QUESTION_MARKS),
    )


def _select(parts: list[str], words: list[str]) -> list[str]:
    keys = {word for word in words if len(word) == 1 or word.isdigit()} if len(words) <= _MAX_WORDS else set()
    if keys and (found := [part for part in parts if (key := _KEY.match(part)) and key[1].lower() in keys]):
        return found
    stems = {word[:_STEM_CHARS] for word in words if len(word) >= _LEAST_WORD}
    shared = [len(stems.intersection(_stems_of(part))) for part in parts] if stems else []
    most = max(shared, default=0)
    return [part for part, count in zip(parts, shared, strict=True) if count == most] if most else []


def _stems_of(part: str) -> set[str]:
    return {word.lower()[:_STEM_CHARS] for word in _WORD.findall(part) if len(word) >= _LEAST_WORD}


def _find_end(parts: list[str]) -> list[str]:
    """The last sentences, with a whole list where they follow one."""
    chars = 0
    for index in range(len(parts) - 1, -1, -1):
        chars += len(parts[index])
        if chars > _LEAST_CHARS and index < len(parts) - 1 and not _ITEM.match(parts[index]):
            return parts[index:]
    return parts


def _find_number(text: str) -> int:
    """The largest count: years, versions, sizes and shares are none."""
    found = (int(number.replace(",", "").replace(".", "")) for number in _NUMBER.findall(text))
    return max((number for number in found if number < _MAX_NUMBER and number not in _YEARS), default=0)
