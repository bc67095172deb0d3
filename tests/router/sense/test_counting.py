"""The program of the process that counts: cutting texts, and answering over a pipe."""

import hashlib
import io
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.sense import counting
from router.sense.counting import ANSWER, READY, UNCOUNTED, KeptCounts, read_question, write_question


def ask(*questions: tuple[str, ...]) -> io.BytesIO:
    return io.BytesIO(b"".join(map(write_question, questions)))


def answers_to(questions: io.BytesIO, encode) -> list[int]:
    answers = io.BytesIO()
    counting.answer(questions, answers, encode)
    return [count for (count,) in ANSWER.iter_unpack(answers.getvalue())]


def test_each_question_gets_the_sum_of_its_texts_after_a_word_that_it_may_be_asked():
    assert answers_to(ask(("ab", "c"), (), ("\u6771",)), list) == [READY, 3, 0, 1]


def test_a_text_that_occurs_twice_is_sent_once_and_counted_twice():
    assert read_question(ask(("ab", "c", "ab"))) == [(b"ab", 2), (b"c", 1)]
    assert answers_to(ask(("ab", "c", "ab")), list) == [READY, 5]


@pytest.mark.parametrize("left", [2, 6, 13])
def test_a_question_that_is_cut_off_gets_no_answer(left):
    whole = ask(("abc",)).getvalue()

    assert answers_to(io.BytesIO(whole[:left]), list) == [READY]
    assert answers_to(io.BytesIO(whole), list) == [READY, 3]


@given(st.lists(st.lists(st.text(max_size=300), max_size=6), max_size=6))
def test_what_was_counted_before_is_counted_as_it_would_be_alone(questions):
    def encode(text: str) -> list[int]:
        return [0] * (len(text) % 7)

    expected = [sum(len(encode(text)) for text in texts) for texts in questions]

    assert answers_to(ask(*map(tuple, questions), *map(tuple, questions)), encode) == [READY, *expected, *expected]


def test_a_text_is_given_to_the_tokenizer_once():
    seen: list[str] = []

    def encode(text: str) -> list[int]:
        seen.append(text)
        return [0] * len(text)

    grown = [("a" * 300, "short"), ("a" * 300, "short", "new")]

    assert answers_to(ask(*grown), encode) == [READY, 305, 308]
    assert seen == ["a" * 300, "short", "new"]


def test_the_text_that_was_asked_about_longest_ago_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(counting, "_MAX_KEPT", 2)
    seen: list[str] = []
    counts = KeptCounts(lambda text: seen.append(text) or [0])

    for text in (b"a", b"b", b"a", b"c", b"a", b"b"):
        counts.count(text)

    assert seen == ["a", "b", "c", "b"]


def test_a_short_text_that_spells_the_hash_of_a_long_one_has_a_count_of_its_own():
    counts = KeptCounts(list)
    long = b"x" * 300
    counts.count(long)

    assert counts.count(hashlib.sha256(long).hexdigest().encode()) == 64


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
