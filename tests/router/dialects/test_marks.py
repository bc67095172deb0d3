"""Bytes that are searched for only where a conversation grew: the answer is that of a search through all of it."""

import json
from random import Random

import pytest

from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects import json_body
from router.dialects.histories import Histories
from router.dialects.json_body import parse_request
from router.dialects.marks import holds

MARK = b"tandem"
WORDS = ("a", "message", "tan", "dem", "tandem", "tande", "m", "andem")


@pytest.fixture(autouse=True)
def _small_bodies_are_kept(monkeypatch):
    monkeypatch.setattr(json_body, "_SHORT_BYTES", 0)
    monkeypatch.setattr(json_body, "_LARGE_BYTES", 0)


def parse(items: list, known: Histories, tools: str = "") -> tuple[bytes, list]:
    raw = json.dumps({"model": "auto", "messages": items, "tools": tools}).encode()
    body, _, _ = parse_request(Arrival("r", Dialect.CHAT, Operation.CREATE, {}, raw), known)
    return raw, body["messages"]


def say(words: str) -> dict:
    return {"role": "user", "content": words}


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_is_that_of_a_search_through_all_of_it(seed):
    draw, known = Random(seed), Histories()
    rare = WORDS[:1] * 60 + WORDS
    items = [say(draw.choice(rare)) for _ in range(5)]
    for _ in range(30):
        raw, parsed = parse(items, known, draw.choice(rare))

        assert holds(raw, parsed, MARK) == (MARK in raw)

        if draw.random() < 0.1:
            items[draw.randrange(len(items))] = say(draw.choice(WORDS))  # as a client that edits its history
        items += [say(draw.choice(rare)) for _ in range(draw.randrange(4))]


class Searched(bytes):
    """Bytes that note from where they are searched."""

    def rfind(self, mark, start=0, *rest):
        self.starts = [*getattr(self, "starts", []), start]
        return super().rfind(mark, start, *rest)


def test_what_was_searched_before_is_not_searched_again():
    known, items = Histories(), [say(f"message {number} " * 50) for number in range(20)]
    raw, parsed = parse(items, known)
    holds(raw, parsed, MARK)

    more, parsed = parse([*items, say("more")], known)
    searched = Searched(more)
    parsed.raw_id = id(searched)
    holds(searched, parsed, MARK)

    assert searched.starts[0] > len(raw) - 100


def test_bytes_that_were_written_again_are_searched_whole():
    known, items = Histories(), [say("message") for _ in range(20)]
    raw, parsed = parse(items, known)
    holds(raw, parsed, MARK)
    _, parsed = parse([*items, say("more")], known)

    assert holds(b"tandem" + raw, parsed, MARK)


def test_a_body_is_searched_once_for_what_two_ask_for():
    raw, parsed = parse([say(f"message {number} " * 50) for number in range(20)], Histories())
    searched = Searched(raw)
    parsed.raw_id = id(searched)

    assert [holds(searched, parsed, MARK) for _ in range(2)] == [False, False]
    assert len(searched.starts) == 1
