"""Words in numbers: their places in the table of weights, the concepts that they name, and the hints that are part of them.

All that can be said of a word alone is found out once, when the word is first met. A text then costs one look at each word.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from router.contract.features import TABLE_SIZE, UNSPACED, Concept
from router.sense.claims import PARTS_OF_CLAIMS
from router.sense.lexicon import PAIRS, find_parts, find_phrase

_MAX_WORDS, _MAX_WORD_CHARS = 16_384, 40
_MAX_CONCEPTS = 24
_BEGINNING_CHARS, _ENDING_CHARS = 4, 3
_MAX_DIGITS = 4
"""A number is read by how many digits it has: "3 places" and "300 places" are different tasks."""
_LAST_PLACE = TABLE_SIZE - 1
_WHOLE, _BEGINNING, _ENDING, _SIGN = 0, 1, 2, 3
"""What a piece is: the same letters have another place as a word, as its beginning, and so on."""
_SPREAD = 2_731
"""An odd number whose product with a word's place is far from the place itself. Small: products of large ones cost more."""
_OPENS, _CLOSES, _UNSPOKEN = (crc32(sign) & _LAST_PLACE for sign in (b"^", b"$", b"~"))
_NO_JOINTS: Mapping[str, str] = {}
_HINTS = (*sorted(PARTS_OF_CLAIMS), "http", "traceback", "exception")
_HAS_HINT = re.compile("|".join(_HINTS)).search

_Says = tuple[tuple[Concept, ...], Mapping[str, str], tuple[str, ...]]
"""The concepts that a word names, those that it names together with the word before it, and its hints."""
_Known = tuple[int, int, tuple[int, ...], _Says | None]
"""A word's place in a pair with the word before it, its place in a pair with the next, all of its places, and what it says."""


class WordsRead(NamedTuple):
    """What the words of a text come to."""

    pieces: list[int]
    """The places of all words, pairs, beginnings and endings."""
    concepts: list[Concept]
    hints: list[str]
    """Which of some parts of words were found, as often as they were: what claims are made of, "http", "traceback"."""


def read_words(words: list[str]) -> WordsRead:
    """Look at each word, and at each pair of words that follow each other."""
    pieces: list[int] = []
    concepts: list[Concept] = []
    hints: list[str] = []
    before = _spread(_OPENS)
    for at, (place, spread, own, says) in enumerate(map(_look_up, words)):
        pair = before ^ place
        pieces += own
        pieces.append(pair)
        before = spread
        if says is None:
            continue
        named, joints, found = says
        if found:
            hints += found
        if len(concepts) < _MAX_CONCEPTS:
            for phrase, part in named:
                concepts.append((phrase, part + (pair,)))  # noqa: RUF005  half the time of unpacking
            if joints and at and (joint := joints.get(words[at - 1])) is not None:
                concepts.append((joint, (*_look_up(words[at - 1])[2], pair, *own)))
    pieces.append(before ^ _CLOSES)
    return WordsRead(pieces, concepts[:_MAX_CONCEPTS], hints)


class _Words(dict[str, _Known]):
    """What is known of words. A word that is missing is learned."""

    def __missing__(self, word: str) -> _Known:
        """With too many the memory starts over: a cache that keeps order costs more."""
        if len(self) >= _MAX_WORDS:
            self.clear()
        found = _read_word(word) if word.isascii() or not UNSPACED.search(word) else _read_signs(word)
        if len(word) <= _MAX_WORD_CHARS:
            self[word] = found
        return found


_look_up = _Words().__getitem__


def _read_word(word: str) -> _Known:
    """Read a word by itself, by its beginning and by its ending."""
    text = word
    if word.isdigit():
        text = "0" * min(len(word), _MAX_DIGITS)
    elif "_" in word and len(word) > 1:
        text = "~id"
    data = text.encode("utf-8", "replace")
    size, place = len(text), crc32(data) & _LAST_PLACE
    own: tuple[int, ...] = (place,)
    if size > _BEGINNING_CHARS:
        if len(data) > size:
            beginning, ending = _place(text[:_BEGINNING_CHARS], _BEGINNING), _place(text[-_ENDING_CHARS:], _ENDING)
        else:  # a byte for each letter: no part is to be encoded again
            beginning = crc32(data[:_BEGINNING_CHARS], _BEGINNING) & _LAST_PLACE
            ending = crc32(data[-_ENDING_CHARS:], _ENDING) & _LAST_PLACE
        own = (place, beginning, ending) if size > _BEGINNING_CHARS + 1 else (place, beginning)
    phrase = find_phrase(word)
    return place, place * _SPREAD & _LAST_PLACE, own, _say(word, ((phrase, own),) if phrase is not None else ())


def _read_signs(word: str) -> _Known:
    """The same in scripts that do not part words: single signs and pairs of them; other letters among them whole."""
    runs = UNSPACED.findall(word)
    own = [place for run in runs for place in _signs_of(run)]
    own += [_place(rest, _WHOLE) for rest in UNSPACED.sub(" ", word).split()]
    named = tuple((phrase, tuple(_signs_of(part))) for run in runs for part, phrase in find_parts(run))
    return _UNSPOKEN, _spread(_UNSPOKEN), tuple(own), _say(word, named)


def _say(word: str, named: tuple[Concept, ...]) -> _Says | None:
    """Put together what a word says; None for most words, which say nothing."""
    joints, has_hint = PAIRS.get(word), _HAS_HINT(word)  # one search instead of many: few words have any
    if not (named or joints or has_hint):
        return None
    hints = tuple(hint for hint in _HINTS for _ in range(word.count(hint))) if has_hint else ()
    return named, joints or _NO_JOINTS, hints


def _signs_of(run: str) -> list[int]:
    pairs = [run[index : index + 2] for index in range(len(run) - 1)]
    return [_place(signs, _SIGN) for signs in (*run, *pairs)]


def _place(text: str, kind: int) -> int:
    return crc32(text.encode("utf-8", "replace"), kind) & _LAST_PLACE


def _spread(place: int) -> int:
    return place * _SPREAD & _LAST_PLACE
