"""The token-counting process: texts come in over a pipe, counts go out.

Run as a file by `counting_process`, so it imports nothing of the router. tiktoken's vocabulary takes 80 MB and holds the GIL
while loading, and a text can make its Rust code panic; here neither reaches a request.

A question is the number of distinct texts, their lengths, their occurrences (4 bytes per number), and the texts; an answer is 8
bytes. The first answer, `READY`, comes unasked once the vocabulary is loaded. Counts are cached by text.
"""

import re
import struct
import sys
from binascii import a2b_base64
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import accumulate
from typing import BinaryIO

ANSWER = struct.Struct("<q")
READY = -1
UNCOUNTED = -2

_NUMBER = struct.Struct("<I")
_HASHED_BYTES = 256
"""Longer texts are keyed by hash: shorter, and a hundredth of the time of counting."""
_MAX_KEPT = 32_768
"""A dozen long conversations, in 13 MB at most."""

_PIECE_CHARS = 100_000
"""tiktoken's regex overflows its stack in a run of about a million blanks."""
_SEAM_CHARS = 1_000
_SEAM = re.compile(r"[^\W_](?=\s)")


def cut(text: str) -> Iterator[str]:
    """Cut a text into pieces whose counts add up to its own.

    No `o200k_base` token spans a letter or digit and the blank after it, so a cut there is exact. Without such a place (a run
    of blanks, base64), a cut changes the count by at most two.
    """
    start = 0
    while len(text) - start > _PIECE_CHARS:
        limit = start + _PIECE_CHARS
        ends = [found.end() for found in _SEAM.finditer(text, limit - _SEAM_CHARS, limit)]
        end = ends[-1] if ends else limit
        yield text[start:end]
        start = end
    yield text[start:]


def write_question(texts: Iterable[str]) -> bytes:
    """Most texts are field names, which every message repeats."""
    times = Counter(texts)
    written = [text.encode("utf-8", "replace") for text in times]
    numbers = (len(written), *map(len, written), *times.values())
    return b"".join((struct.pack(f"<{len(numbers)}I", *numbers), *written))


def read_question(questions: BinaryIO) -> list[tuple[bytes, int]] | None:
    if len(head := questions.read(_NUMBER.size)) < _NUMBER.size:
        return None
    (number,) = _NUMBER.unpack(head)
    if len(written := questions.read(2 * number * _NUMBER.size)) < 2 * number * _NUMBER.size:
        return None
    numbers = struct.unpack(f"<{2 * number}I", written)
    lengths, times = numbers[:number], numbers[number:]
    if len(joined := questions.read(sum(lengths))) < sum(lengths):
        return None
    ends = list(accumulate(lengths))
    return [(joined[start:end], often) for start, end, often in zip([0, *ends], ends, times, strict=False)]


def answer(questions: BinaryIO, answers: BinaryIO, encode: Callable[[str], list[int]]) -> None:
    counts = KeptCounts(encode)
    answers.write(ANSWER.pack(READY))
    answers.flush()
    while (texts := read_question(questions)) is not None:
        answers.write(ANSWER.pack(counts.count_all(texts)))
        answers.flush()


class KeptCounts:
    """Counts texts and caches the results, dropping the least recently used."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._kept: OrderedDict[bytes | str, int] = OrderedDict()

    def count_all(self, texts: Iterable[tuple[bytes, int]]) -> int:
        """`UNCOUNTED` if the tokenizer fails."""
        total = 0
        for text, often in texts:
            tokens = self.count(text)
            if tokens is None:
                return UNCOUNTED
            total += tokens * often
        return total

    def count(self, text: bytes) -> int | None:
        key = text if len(text) < _HASHED_BYTES else sha256(text).hexdigest()
        tokens = self._kept.get(key)
        if tokens is not None:
            self._kept.move_to_end(key)
            return tokens
        try:
            tokens = sum(len(self._encode(piece)) for piece in cut(text.decode("utf-8", "replace")))
        except BaseException:  # noqa: BLE001  a panic in Rust is no Exception, and must not cost the process
            return None
        self._kept[key] = tokens
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return tokens


def read_ranks(file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Read all lines at once, in two fifths of tiktoken's time. In a file with this hash, ranks count up from 0."""
    from tiktoken.load import read_file_cached

    tokens = read_file_cached(file, expected_hash).split()[::2]
    return {a2b_base64(token): rank for rank, token in enumerate(tokens)}


def main() -> None:
    import tiktoken  # only this process needs these
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # a plug-in without types

    openai_public.load_tiktoken_bpe = read_ranks
    # encode_ordinary treats <|endoftext|> and the like as plain text; encode would raise.
    answer(sys.stdin.buffer, sys.stdout.buffer, tiktoken.get_encoding("o200k_base").encode_ordinary)


if __name__ == "__main__":
    main()
