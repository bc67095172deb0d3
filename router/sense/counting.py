"""The program of the process that counts tokens: texts come in over a pipe, counts go out.

It imports nothing of the router, since only its file is run (by `counting_process`). tiktoken's vocabulary takes 80 MB and
holds the GIL while it is loaded, and a text can make its Rust code panic; here neither reaches a request.

A question is the length of each text (4 bytes) and the text, and ends with the length `END`; an answer is 8 bytes. The first
answer, `READY`, comes unasked, once the vocabulary is loaded.
"""

import re
import struct
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from typing import BinaryIO

LENGTH = struct.Struct("<I")
ANSWER = struct.Struct("<q")
END = 0xFFFF_FFFF
READY = -1
UNCOUNTED = -2

_PIECE_CHARS = 100_000
"""tiktoken's regex overflows its stack in a run of about a million blanks."""
_SEAM_CHARS = 1_000
"""How far back from the end of a piece a seam is looked for."""
_SEAM = re.compile(r"[^\W_](?=\s)")


def cut(text: str) -> Iterator[str]:
    """The text in pieces whose counts add up to its own.

    No token of `o200k_base` reaches from a letter or digit over a blank, so a cut between the two changes nothing. Where there
    is no such place (a run of blanks, base64), a cut changes the count by two tokens at most.
    """
    start = 0
    while len(text) - start > _PIECE_CHARS:
        limit = start + _PIECE_CHARS
        ends = [found.end() for found in _SEAM.finditer(text, limit - _SEAM_CHARS, limit)]
        end = ends[-1] if ends else limit
        yield text[start:end]
        start = end
    yield text[start:]


def answer(questions: BinaryIO, answers: BinaryIO, encode: Callable[[str], list[int]]) -> None:
    """Answer until nobody asks any more."""
    answers.write(ANSWER.pack(READY))
    answers.flush()
    while (count := _answer_one(questions, encode)) is not None:
        answers.write(ANSWER.pack(count))
        answers.flush()


def _answer_one(questions: BinaryIO, encode: Callable[[str], list[int]]) -> int | None:
    """The tokens of the next question's texts; None where the questions end."""
    total = 0
    while len(head := questions.read(LENGTH.size)) == LENGTH.size:
        (length,) = LENGTH.unpack(head)
        if length == END:
            return total
        text = questions.read(length).decode("utf-8", "replace")
        if total != UNCOUNTED:
            counted = _count(text, encode)
            total = UNCOUNTED if counted is None else total + counted
    return None


def _count(text: str, encode: Callable[[str], list[int]]) -> int | None:
    try:
        return sum(len(encode(piece)) for piece in cut(text))
    except BaseException:  # noqa: BLE001  a panic in Rust is no Exception, and must not cost the process
        return None


def read_ranks(file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The vocabulary's tokens with their ranks, as tiktoken reads them: all lines at once, which takes half of its time."""
    from tiktoken.load import read_file_cached

    words = read_file_cached(file, expected_hash).split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


def main() -> None:
    """Load the vocabulary from where `TIKTOKEN_CACHE_DIR` says, and answer."""
    import tiktoken  # only this process needs these
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # a plug-in without types

    openai_public.load_tiktoken_bpe = read_ranks
    # encode_ordinary takes <|endoftext|> and its like for plain text; encode would raise on them.
    answer(sys.stdin.buffer, sys.stdout.buffer, tiktoken.get_encoding("o200k_base").encode_ordinary)


if __name__ == "__main__":
    main()
