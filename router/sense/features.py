"""A text in numbers, for the trained reading: what the person typed, and its shape.

All that was typed is read, without the lines that were pasted; of a text longer than 900 characters its first 600 and last 300,
so that a book costs no more than a page. Training and serving both call this.
"""

import math
import re
from functools import lru_cache
from zlib import crc32

from router.contract.features import MARKS, SHOWN_CHARS, TABLE_SIZE, UNSPACED, Concept, Features, steps_of
from router.sense.claims import drop_claims
from router.sense.lexicon import PAIRS, asks_for_nothing, find_parts, find_phrase
from router.sense.pasted import own_words

_HEAD_CHARS, _TAIL_CHARS = 600, 300
_MAX_TYPED = 2_000
"""Claims are looked for in no more than this of either end."""
_MAX_CONCEPTS = 24
_SHORT_CHARS = 100
"""Longer words have a task of their own."""
_BEGINNING_CHARS, _ENDING_CHARS = 4, 3
_MAX_DIGITS = 4
"""A number is read by how many digits it has: "3 places" and "300 places" are different tasks."""
_LAST_PLACE = TABLE_SIZE - 1
_WHOLE, _BEGINNING, _ENDING, _SIGN = 0, 1, 2, 3
"""What a piece is: the same letters have another place as a word, as its beginning, and so on."""
_SPREAD = 2_731
"""An odd number whose product with a word's place is far from the place itself. Small: products of large ones cost more."""
_OPENS, _CLOSES, _UNSPOKEN = (crc32(sign) & _LAST_PLACE for sign in (b"^", b"$", b"~"))
_GAPS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
"""What parts words in plain text: the same as `_WORD`, at a tenth of the time."""

_Known = tuple[int, tuple[int, ...], tuple[Concept, ...]]
"""The place by which a word is paired with others, all of its places, and the concepts that it names."""
_words: dict[str, _Known] = {}
_MAX_WORDS, _MAX_WORD_CHARS = 16_384, 40

_WORD = re.compile(r"\w+")
_FILE = re.compile(
    r"\.(?:py|js|ts|tsx|jsx|go|rs|rb|java|kt|c|h|cpp|cc|hpp|cs|php|md|json|ya?ml|toml|html|css|scss|vue|sh|sql|txt|ini|cfg|lock"
    r"|xml|svelte|swift|exs?|lua|r|env|conf|tf|proto|ipynb|csv)\b"
)
_RED = (
    *("FAIL", "Traceback (most", "npm ERR!", "panic: ", "Error: ", "Exception: ", "error: ", "fatal: ", "❌", "✗"),
    *("xit code 1", "xit code 2", "xit status 1", "xit status 2"),
)
"""What the output of something that failed shows."""
_COUNTED = re.compile(r"\b[1-9]\d* (?:tests? )?fail(?:ed|ing|ures?)\b")
_LIST_ITEM = re.compile(r"\n[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]")
_CAMEL_CASE = re.compile(r"[a-z][A-Z]")
_QUESTION_MARKS = ("?", "？", "؟")


@lru_cache(maxsize=512)
def read_features(text: str) -> Features:
    """Measure a text. The same words are measured once: a tool loop repeats them on every call."""
    whole = _ends(text.strip(), _MAX_TYPED, _MAX_TYPED)
    own, pasted = own_words(whole)
    typed = drop_claims(own)
    length = len(text) if len(text) > 2 * _MAX_TYPED and not pasted else len(typed)
    shown = _ends(typed, _HEAD_CHARS, _TAIL_CHARS)
    lower = shown.lower()
    is_plain = lower.isascii()
    words = lower.translate(_GAPS).split() if is_plain else _WORD.findall(lower)
    pieces, concepts = _read_words(words)
    return Features(
        pieces=tuple({*pieces}),
        marks=steps_of(MARKS, (*_count_marks(shown, lower, len(words), length, is_plain=is_plain), pasted, _is_red(whole))),
        length=math.log1p(min(length, SHOWN_CHARS)) / 3 - 1,
        concepts=tuple(concepts[:_MAX_CONCEPTS]),
        has_task=not asks_for_nothing(words),
        is_short=len(text) <= _SHORT_CHARS,
    )


def shown_words(text: str) -> str:
    """What is read of a text: 900 characters of it at most, without what was pasted or claims a tier."""
    return _ends(drop_claims(own_words(_ends(text.strip(), _MAX_TYPED, _MAX_TYPED))[0]), _HEAD_CHARS, _TAIL_CHARS)


def _ends(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


def _read_words(words: list[str]) -> tuple[list[int], list[Concept]]:
    """The places of all words, pairs, beginnings and endings, and the concepts that they name."""
    pieces: list[int] = []
    concepts: list[Concept] = []
    known = _words.get
    before, before_word, before_own = _OPENS, "", ()  # type: int, str, tuple[int, ...]
    for word in words:
        place, own, named = known(word) or _learn_word(word)
        pair = before * _SPREAD & _LAST_PLACE ^ place
        pieces += own
        pieces.append(pair)
        if named:
            concepts += [(phrase, (*part, pair)) for phrase, part in named]
        if before_word in PAIRS and (joint := PAIRS[before_word].get(word)) is not None:
            concepts.append((joint, (*before_own, pair, *own)))
        before, before_word, before_own = place, word, own
    pieces.append(before * _SPREAD & _LAST_PLACE ^ _CLOSES)
    return pieces, concepts


def _learn_word(word: str) -> _Known:
    """Find out what a word is, and remember it. With too many the memory starts over: a cache that keeps order costs more."""
    if len(_words) >= _MAX_WORDS:
        _words.clear()
    found = _read_word(word) if word.isascii() or not UNSPACED.search(word) else _read_signs(word)
    if len(word) <= _MAX_WORD_CHARS:
        _words[word] = found
    return found


def _read_word(word: str) -> _Known:
    """A word's place, all of its places (its own, that of its beginning, that of its ending), and what it names."""
    phrase = find_phrase(word)
    if word.isdigit():
        word = "0" * min(len(word), _MAX_DIGITS)
    elif "_" in word and len(word) > 1:
        word = "~id"
    place, size = _place(word, _WHOLE), len(word)
    own: tuple[int, ...] = (place,)
    if size > _BEGINNING_CHARS:
        own = (place, _place(word[:_BEGINNING_CHARS], _BEGINNING))
    if size > _BEGINNING_CHARS + 1:
        own = (*own, _place(word[-_ENDING_CHARS:], _ENDING))
    return place, own, ((phrase, own),) if phrase is not None else ()


def _read_signs(word: str) -> _Known:
    """The same in scripts that do not part words: single signs and pairs of them; other letters among them whole."""
    runs = UNSPACED.findall(word)
    own = [place for run in runs for place in _signs_of(run)]
    own += [_place(rest, _WHOLE) for rest in UNSPACED.sub(" ", word).split()]
    named = tuple((phrase, tuple(_signs_of(part))) for run in runs for part, phrase in find_parts(run))
    return _UNSPOKEN, tuple(own), named


def _signs_of(run: str) -> list[int]:
    pairs = [run[index : index + 2] for index in range(len(run) - 1)]
    return [_place(signs, _SIGN) for signs in (*run, *pairs)]


def _place(text: str, kind: int) -> int:
    return crc32(text.encode("utf-8", "replace"), kind) & _LAST_PLACE


def _count_marks(shown: str, lower: str, words: int, length: int, *, is_plain: bool) -> tuple[int, ...]:
    """Shape: what is between the words, in the order of `MARKS`."""
    count, lines = lower.count, lower.count("\n")
    return (
        words,
        length,
        len(_FILE.findall(lower)) if "." in lower else 0,
        count(",") if is_plain else count(",") + count("、") + count("，"),
        lines,
        len(_LIST_ITEM.findall(lower)) if lines else 0,
        count("`"),
        count("http"),
        len(_CAMEL_CASE.findall(shown)),
        count("_"),
        count("(") + count("{") + count("[") + count("=") + count(";") + count("<"),
        count("/"),
        count('"') + count("'"),
        count(". ") + count("! ") + (0 if is_plain else count("。")),
        count(":"),
        count("?") if is_plain else count("?") + count("？") + count("؟"),
        int(lower.rstrip()[-1:] in _QUESTION_MARKS),
        int("```" in lower),
        int("traceback" in lower or "\n    at " in lower or "exception" in lower),
        int("->" in lower or "→" in lower or "=>" in lower),
    )


def _is_red(text: str) -> bool:
    """Whether a text shows output of something that failed."""
    return any(map(text.__contains__, _RED)) or (" fail" in text and _COUNTED.search(text) is not None)
