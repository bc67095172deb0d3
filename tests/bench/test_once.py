"""The benchmark's requests: those that are to be sent once are never equal, and a session's next call begins like the last."""

import itertools
import json

import pytest

from tests.bench.load import body_of
from tests.bench.once import ONCE


@pytest.mark.parametrize("kind", ONCE)
def test_no_two_requests_of_any_caller_are_equal(kind):
    sessions = itertools.count(1)
    callers = [ONCE[kind](sessions) for _ in range(3)]

    sent = [next(caller) for _ in range(40) for caller in callers]

    assert len({request.partition(b"\r\n\r\n")[2] for request in sent}) == len(sent)


@pytest.mark.parametrize(("kind", "size"), [("fresh", 600), ("agent", 50_000), ("codex", 53_000), ("codex_first", 53_000)])
def test_a_request_has_about_the_size_that_the_bench_says(kind, size):
    requests = [next(ONCE[kind](itertools.count(1_000))) for _ in range(2)]

    assert [len(request.partition(b"\r\n\r\n")[2]) for request in requests] == pytest.approx([size, size], rel=0.2)


def test_fresh_words_have_no_word_that_another_request_had():
    said = [words_of(request) for request in itertools.islice(ONCE["fresh"](itertools.count(1)), 50)]

    assert all(first.isdisjoint(second) for first, second in itertools.combinations(said, 2))


def words_of(request: bytes) -> set[str]:
    return set(json.loads(request.partition(b"\r\n\r\n")[2])["messages"][0]["content"].split())


@pytest.mark.parametrize(("kind", "field"), [("agent", "messages"), ("codex", "input")])
def test_a_session_goes_on_where_its_last_call_ended(kind, field):
    first, second = (json.loads(request.partition(b"\r\n\r\n")[2]) for request in itertools.islice(ONCE[kind](iter([7])), 2))

    assert second[field][: len(first[field])] == first[field]
    assert len(second[field]) > len(first[field])


def test_the_repeated_request_is_always_the_same():
    assert body_of(600) == body_of(600)
