"""Words in numbers. What a word says by itself is computed once, so a text costs one look-up per word."""

import re
from collections.abc import Mapping
from itertools import compress
from operator import not_
from typing import NamedTuple, cast
from zlib import crc32

from router.contract.features import TABLE_SIZE, UNSPACED, Concept
from router.sense.claims import PARTS_OF_CLAIMS
from router.sense.lexicon import PAIRS, find_parts, find_phrase, find_speaking

_MAX_WORDS, _MAX_WORD_CHARS = 16_384, 40
_MAX_CONCEPTS = 24
_BEGINNING_CHARS, _ENDING_CHARS = 4, 3
_MAX_DIGITS = 4
"""Numbers are read by their digits: "3 places" and "300 places" are different tasks."""
_LAST_PLACE = TABLE_SIZE - 1
_WHOLE, _BEGINNING, _ENDING, _SIGN = 0, 1, 2, 3
"""Kinds of pieces: equal letters have different places as a word, a beginning, and so on."""
_SPREAD = 2_731
"""Odd, so that products are far from the place itself. Small, since large products cost more."""
_OPENS, _CLOSES, _UNSPOKEN = (crc32(sign) & _LAST_PLACE for sign in (b"^", b"$", b"~"))
_NO_JOINTS: Mapping[str, str] = {}
_HINTS = (*sorted(PARTS_OF_CLAIMS), "http", "traceback", "exception")
_HAS_HINT = re.compile("|".join(_HINTS)).search

_Part = tuple[str, tuple[int, ...]]
"""The phrase of a part of a word, and that part's places."""
_More = tuple[tuple[_Part, ...], Mapping[str, str], tuple[str, ...]]
_Says = tuple[str | None, _More | None]
_Known = tuple[int, int, tuple[int, ...], _Says | None]
"""Place in a pair with the word before, place in a pair with the next, all own places, and what it says."""


class WordsRead(NamedTuple):
    pieces: list[int]
    concepts: list[Concept]
    hints: list[str]
    """Parts found in words, repeats included: parts of claims, "http", "traceback"."""


def read_words(words: list[str]) -> WordsRead:
    pieces: list[int] = []
    concepts: list[Concept] = []
    hints: list[str] = []
    before = _spread(_OPENS)
    known = _look_up(words)
    for at, (place, spread, own, says) in enumerate(known):
        pair = before ^ place
        pieces += own
        pieces.append(pair)
        before = spread
        if says is None:
            continue
        phrase, more = says
        if phrase is not None:
            concepts.append((phrase, own, pair))
        if more is None:
            continue
        parts, joints, found = more
        hints += found
        for phrase, part in parts:
            concepts.append((phrase, part, pair))
        if at and (joint := joints.get(words[at - 1])) is not None:
            concepts.append((joint, known[at - 1][2] + own, pair))
    pieces.append(before ^ _CLOSES)
    return WordsRead(pieces, concepts[:_MAX_CONCEPTS], hints)


_known: dict[str, _Known] = {}


def _look_up(words: list[str]) -> list[_Known]:
    """New words are learned together: encoding and searching one or sixty takes equally long."""
    known = [*map(_known.get, words)]
    if not all(known):
        learned = _learn({*compress(words, map(not_, known))})
        known = [*map(learned.get, words, known)]
        if len(_known) >= _MAX_WORDS:
            _known.clear()  # start over: a cache with an order costs more
        if max(map(len, learned)) > _MAX_WORD_CHARS:
            learned = {word: found for word, found in learned.items() if len(word) <= _MAX_WORD_CHARS}
        _known.update(learned)
    return cast("list[_Known]", known)


def _learn(words: set[str]) -> dict[str, _Known]:
    together = " ".join(words)
    learned: dict[str, _Known] = {}
    for word, data in zip(words, together.encode("utf-8", "replace").split(), strict=True):
        place, own = _read_word(word, data)
        learned[word] = place, place * _SPREAD & _LAST_PLACE, own, None
    speaking = find_speaking(words)
    if any(map(together.__contains__, _HINTS)):
        speaking.update(filter(_HAS_HINT, words))
    for word in speaking:
        place, spread, own, _ = learned[word]
        learned[word] = place, spread, own, _say(word)
    if not together.isascii():
        learned.update((word, _read_signs(word)) for word in words if UNSPACED.search(word))
    return learned


def _read_word(word: str, data: bytes) -> tuple[int, tuple[int, ...]]:
    """Its place, and all places: whole, beginning and ending."""
    if not word.isalpha():
        if word.isdigit():
            word = "0" * min(len(word), _MAX_DIGITS)
            data = word.encode()
        elif "_" in word and len(word) > 1:
            word, data = "~id", b"~id"
    size, place = len(word), crc32(data) & _LAST_PLACE
    if size <= _BEGINNING_CHARS:
        return place, (place,)
    if len(data) > size:
        beginning, ending = _place(word[:_BEGINNING_CHARS], _BEGINNING), _place(word[-_ENDING_CHARS:], _ENDING)
    else:  # one byte a letter: no part must be encoded again
        beginning = crc32(data[:_BEGINNING_CHARS], _BEGINNING) & _LAST_PLACE
        ending = crc32(data[-_ENDING_CHARS:], _ENDING) & _LAST_PLACE
    return place, (place, beginning, ending) if size > _BEGINNING_CHARS + 1 else (place, beginning)


def _read_signs(word: str) -> _Known:
    """Scripts that do not part words: single signs, pairs of them, and other letters whole."""
    runs = UNSPACED.findall(word)
    own = [place for run in runs for place in _signs_of(run)]
    own += [_place(rest, _WHOLE) for rest in UNSPACED.sub(" ", word).split()]
    parts = tuple((phrase, tuple(_signs_of(part))) for run in runs for part, phrase in find_parts(run))
    return _UNSPOKEN, _spread(_UNSPOKEN), tuple(own), (None, _say_more(word, parts))


def _say(word: str) -> _Says | None:
    phrase, more = find_phrase(word), _say_more(word)
    return None if phrase is None and more is None else (phrase, more)


def _say_more(word: str, parts: tuple[_Part, ...] = ()) -> _More | None:
    joints, has_hint = PAIRS.get(word), _HAS_HINT(word)  # one search instead of many: few words have any
    if not (parts or joints or has_hint):
        return None
    hints = tuple(hint for hint in _HINTS for _ in range(word.count(hint))) if has_hint else ()
    return parts, joints or _NO_JOINTS, hints


def _signs_of(run: str) -> list[int]:
    pairs = [run[index : index + 2] for index in range(len(run) - 1)]
    return [_place(signs, _SIGN) for signs in (*run, *pairs)]


def _place(text: str, kind: int) -> int:
    return crc32(text.encode("utf-8", "replace"), kind) & _LAST_PLACE


def _spread(place: int) -> int:
    return place * _SPREAD & _LAST_PLACE
