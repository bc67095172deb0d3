"""The program of the process that counts: cutting texts, and answering over a pipe."""

import io
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.sense import counting
from router.sense.counting import ANSWER, END, LENGTH, READY, UNCOUNTED


def ask(*questions: tuple[str, ...]) -> io.BytesIO:
    raw = b""
    for texts in questions:
        raw += b"".join(LENGTH.pack(len(text.encode())) + text.encode() for text in texts) + LENGTH.pack(END)
    return io.BytesIO(raw)


def answers_to(questions: io.BytesIO, encode) -> list[int]:
    answers = io.BytesIO()
    counting.answer(questions, answers, encode)
    return [count for (count,) in ANSWER.iter_unpack(answers.getvalue())]


def test_each_question_gets_the_sum_of_its_texts_after_a_word_that_it_may_be_asked():
    assert answers_to(ask(("ab", "c"), (), ("\u6771",)), list) == [READY, 3, 0, 1]


def test_a_question_that_is_cut_off_gets_no_answer():
    whole = ask(("abc",)).getvalue()

    assert answers_to(io.BytesIO(whole[:-6]), list) == [READY]


class Panic(BaseException):
    """What pyo3 raises is no Exception either."""


def test_a_panic_costs_the_count_of_its_question_alone():
    def encode(text: str) -> list[int]:
        if text == "bad":
            raise Panic
        return [0] * len(text)

    assert answers_to(ask(("ab", "bad", "cd"), ("ef",)), encode) == [READY, UNCOUNTED, 2]


@given(st.text(st.sampled_from("ab1 \n_."), max_size=40).map(lambda text: text * 9_000))
def test_pieces_are_short_and_make_up_the_text(text):
    pieces = list(counting.cut(text))

    assert "".join(pieces) == text
    assert all(len(piece) <= 100_000 for piece in pieces)


def words(seed: int, blank: str) -> str:
    random.seed(seed)
    return "".join(
        random.choice(string.printable[:94]) * random.randint(1, 3) + random.choice(("", blank)) for _ in range(150_000)
    )


@pytest.mark.parametrize("blank", [" ", "\n    ", "\t", " \r\n"])
def test_a_text_with_words_is_counted_to_the_token(encoding, blank):
    text = words(7, blank)

    assert len(text) > 250_000
    assert sum(len(encoding.encode_ordinary(piece)) for piece in counting.cut(text)) == len(encoding.encode_ordinary(text))


@pytest.mark.parametrize("text", [" " * 500_000, "a" * 300_000, "\n" * 300_000, "0123456789abcdef" * 20_000, "=-" * 150_000])
def test_where_no_word_ends_a_cut_costs_two_tokens_at_most(encoding, text):
    pieces = list(counting.cut(text))

    counted = sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    assert abs(counted - len(encoding.encode_ordinary(text))) <= 2 * (len(pieces) - 1)


def test_the_vocabulary_is_read_as_the_library_reads_it(encoding, monkeypatch):
    from tiktoken_ext import openai_public

    expected = openai_public.o200k_base()
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", counting.read_ranks)

    assert openai_public.o200k_base() == expected
    assert len(expected["mergeable_ranks"]) > 199_000
