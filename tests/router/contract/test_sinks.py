"""Sinks between a target and its caller."""

import pytest

from router.contract.errors import UpstreamCut
from router.contract.sinks import Collected, Copy, Serving, Waiting, send_whole, watch
from tests.tools.exchanges import RecordingSink

HEADERS = (("a", "b"),)
WAIT, SERVING = Waiting("spark", 1, 2, 3.0), Serving((("a", "served"),))


class Seen:
    """A watcher that takes down what it sees next to what the caller got by then."""

    def __init__(self, caller: RecordingSink) -> None:
        self._caller, self.seen = caller, []

    def add(self, data: bytes) -> None:
        self.seen.append((data, self._caller.body))

    def finish(self) -> None:
        self.seen.append(("end", self._caller.body))


def test_an_answer_that_is_watched_is_passed_on_unchanged_and_seen_before_it_leaves():
    caller = RecordingSink()
    watcher = Seen(caller)
    sink = watch(caller, watcher)

    sink.feed_from(None)
    sink.start(200, HEADERS)
    sink.write(b"one")
    sink.write(b"two")
    sink.end()

    assert caller.words == ["feed_from", "start", "write", "end"]
    assert (caller.headers, caller.body) == (HEADERS, b"onetwo")
    assert watcher.seen == [(b"one", b""), (b"two", b"one"), ("end", b"onetwo")]


def test_one_sink_is_enough_for_everybody_who_watches():
    caller, first, second = RecordingSink(), Copy(), Copy()
    sink = watch(watch(caller, first), second)

    sink.write(b"one")

    assert (first.body, second.body, caller.body) == (b"one",) * 3
    assert sink._caller is caller


def test_an_answer_that_fails_has_no_end_for_those_who_watch():
    caller = RecordingSink()
    watcher = Seen(caller)

    watch(caller, watcher).fail(UpstreamCut("spark", "cut"))

    assert (watcher.seen, caller.words) == ([], ["fail"])


def test_a_fact_goes_to_the_caller_and_into_no_copy():
    caller, copy = RecordingSink(), Copy()
    sink = watch(caller, copy)

    sink.start(200, HEADERS)
    sink.tell(WAIT)
    before = sink.headers
    sink.tell(SERVING)

    assert (caller.facts, copy.body) == ([WAIT, SERVING], b"")
    assert (before, sink.headers) == (HEADERS, SERVING.headers)


@pytest.mark.parametrize(("limit", "body"), [(None, b"12345"), (5, b"12345"), (4, b"")])
def test_a_copy_that_gets_too_long_is_dropped(limit, body):
    copy = Copy(limit)
    for piece in (b"12", b"345"):
        copy.add(piece)

    assert (copy.body, copy.is_too_long) == (body, not body)


async def test_an_answer_for_the_router_itself_is_collected():
    sink = Collected()
    assert not sink.has_started

    send_whole(sink, HEADERS, b"words")

    assert (sink.status, sink.fields, bytes(sink.body)) == (200, {"a": "b", "content-length": "5"}, b"words")
    assert (sink.has_started, sink.has_ended, sink.over.is_set(), sink.error) == (True, True, True, None)


async def test_what_is_longer_than_was_asked_for_is_waited_for_no_longer():
    sink = Collected(3)
    for _ in range(3):
        sink.write(b"abcd")

    assert (bytes(sink.body), sink.over.is_set(), sink.has_ended, sink.is_too_long) == (b"abcd", True, False, True)


async def test_a_failure_ends_what_is_collected():
    sink, error = Collected(), UpstreamCut("spark", "cut")

    sink.fail(error)

    assert (sink.error, sink.has_ended, sink.over.is_set()) == (error, True, True)
