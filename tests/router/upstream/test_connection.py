"""Bytes of a target → a sink and an owner, without a network."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.upstream.connection import Connection, Seen
from router.upstream.reading import Turns
from tests.router.upstream.fakes import LAST, STREAM, WHOLE, Served, chunk


@pytest.fixture
async def served():
    return Served()


@pytest.mark.parametrize("size", [2, 65_536])
async def test_a_request_is_written_whole_whatever_its_size(served, size):
    served.transport.written = b""

    served.send(b"x" * size)

    assert served.transport.written == b"POST / HTTP/1.1\r\n\r\n" + b"x" * size


async def test_an_answer_in_one_read_sets_no_timer_and_leaves_the_connection_free(served):
    served.receive(WHOLE)

    assert served.owner.told == [("completed", True)]
    assert served.sink.told == [("start", 200), ("write", b"{}"), ("end",)]


async def test_a_stream_is_pushed_piece_by_piece_with_lower_case_names(served):
    served.receive(STREAM, chunk(b"a"), chunk(b"b") + chunk(b"c"), LAST)

    assert served.sink.headers == (("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
    assert served.sink.told == [("start", 200), ("write", b"a"), ("write", b"bc"), ("end",)]
    assert served.owner.told == ["headers_seen", ("completed", True)]


async def test_a_refusal_is_an_answer(served):
    served.receive(b"HTTP/1.1 429 Slow\r\nRetry-After: 2\r\ncontent-length: 1\r\n\r\n!")

    assert served.sink.told == [("start", 429), ("write", b"!"), ("end",)]


@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_where_the_network_cuts_an_answer_does_not_matter(cuts):
    data = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + STREAM + chunk(b"data: a\n\n") + chunk(b"data: b\n\n") + LAST

    async def run():
        served, places = Served(), sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        served.receive(*(data[start:end] for start, end in itertools.pairwise(places)))
        return served

    served = asyncio.run(run())

    assert served.sink.body == b"data: a\n\ndata: b\n\n"
    assert served.sink.words == ["start", "write", "end"]
    assert served.owner.told[-1] == ("completed", True)


@pytest.mark.parametrize(
    ("before", "seen"),
    [
        ([], Seen.NOTHING),
        ([b"H"], Seen.BYTES),
        ([b"HTTP/1.1 103 Early\r\n\r\n"], Seen.BYTES),
        ([STREAM], Seen.HEADERS),
        ([STREAM, chunk(b"a")], Seen.HEADERS),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"], Seen.HEADERS),
    ],
)
async def test_a_connection_that_ends_early_says_how_much_was_seen_and_tells_the_sink_nothing(served, before, seen):
    served.receive(*before)

    served.connection.connection_lost(None)

    assert served.owner.told[-1] == ("lost", seen)
    assert not {"end", "fail"} & set(served.sink.words)


async def test_what_was_seen_is_forgotten_with_the_answer(served):
    served.receive(WHOLE)
    served.send()

    served.connection.connection_lost(None)

    assert served.owner.told == [("lost", Seen.NOTHING)]


async def test_an_answer_without_a_length_ends_with_the_connection(served):
    served.receive(b"HTTP/1.1 200 OK\r\n\r\n", b"abc")

    served.connection.connection_lost(None)

    assert served.owner.told[-1] == ("completed", False)
    assert served.sink.told[-2:] == [("write", b"abc"), ("end",)]


async def test_an_answer_without_a_length_that_ends_in_an_error_is_lost(served):
    served.receive(b"HTTP/1.1 200 OK\r\n\r\n", b"abc")

    served.connection.connection_lost(ConnectionResetError())

    assert served.owner.told[-1] == ("lost", Seen.HEADERS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 042 X\r\ncontent-length: 0\r\n\r\n", "invalid status line"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 201 + b"\r\n", "headers too large"),
        (b"HTTP/1.1 200 OK\r\na: " + b"x" * 65_537 + b"\r\n\r\n", "headers too large"),
        (b"HTTP/1.1 103 Early\r\n\r\n" * 129, "too many interim responses"),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "unexpected protocol switch"),
    ],
)
async def test_what_is_not_an_answer_closes_the_connection_with_a_reason(served, data, reason):
    served.receive(data)

    assert served.owner.told == [("malformed", reason)]
    assert served.transport.is_aborted
    assert served.sink.told == []


async def test_rubbish_inside_a_body_is_malformed_after_what_was_good(served):
    served.receive(STREAM, chunk(b"a"), b"not a chunk\r\n")

    assert served.owner.told == ["headers_seen", ("malformed", "not HTTP/1.1")]
    assert served.sink.told == [("start", 200), ("write", b"a")]


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", WHOLE + b"HTTP/1.1 200 OK\r\n"],
    ids=["it says so", "more came than was asked for"],
)
async def test_a_connection_that_cannot_be_trusted_again_is_not_reused(served, answer):
    served.receive(answer)

    assert served.owner.told == [("completed", False)]


async def test_a_connection_whose_request_is_not_yet_written_is_not_reused(served):
    served.transport.pending = 1

    served.receive(WHOLE)

    assert served.owner.told == [("completed", False)]


async def test_bytes_on_an_idle_connection_close_it(served):
    served.receive(WHOLE)

    served.receive(WHOLE)

    assert served.transport.is_aborted
    assert served.sink.words == ["start", "write", "end"]


async def test_after_a_drop_neither_owner_nor_sink_is_told_anything(served):
    served.receive(STREAM)
    served.connection.drop()
    before = list(served.owner.told), list(served.sink.told)

    served.receive(chunk(b"a"), LAST)
    served.connection.connection_lost(None)

    assert (served.owner.told, served.sink.told) == before


async def test_a_sink_may_drop_the_connection_from_inside_its_own_start(served):
    served.sink.start = lambda status, headers: served.connection.drop()

    served.receive(STREAM + chunk(b"a") + LAST)

    assert served.owner.told == []
    assert served.sink.told == []


async def test_pausing_stops_the_reading_and_resuming_starts_it(served):
    served.connection.pause()
    assert not served.transport.is_reading

    served.connection.resume()
    await asyncio.sleep(0)
    assert served.transport.is_reading


async def test_a_pause_ends_with_its_answer(served):
    served.receive(STREAM)
    served.connection.pause()

    served.receive(LAST)
    await asyncio.sleep(0)

    assert served.transport.is_reading


async def test_a_large_read_lets_the_loop_do_other_work_before_the_next(served):
    served.receive(STREAM, chunk(b"a" * 200_000))
    assert not served.transport.is_reading

    await asyncio.sleep(0)
    assert served.transport.is_reading


async def test_a_pause_during_a_large_read_lasts(served):
    served.receive(STREAM, chunk(b"a" * 200_000))
    served.connection.pause()

    await asyncio.sleep(0)
    assert not served.transport.is_reading


async def test_the_time_of_the_last_bytes_is_kept(served):
    before = asyncio.get_running_loop().time()

    served.receive(STREAM)

    assert before <= served.connection.last_read_at <= asyncio.get_running_loop().time()


async def test_a_connection_is_usable_while_it_is_open(served):
    assert served.connection.is_usable
    served.connection.drop()
    assert not served.connection.is_usable
    assert not Connection(Turns()).is_usable


async def test_headers_that_never_end_are_refused_however_they_arrive(served):
    served.receive(b"HTTP/1.1 200 OK\r\na: ", *[b"x" * 16_000] * 6)

    assert served.owner.told == [("malformed", "headers too large")]
    assert served.transport.is_aborted


@pytest.mark.parametrize("begun", [b"0\r\nx-trailer: ", b"2;extension="], ids=["a trailer", "a chunk's extension"])
async def test_framing_that_never_ends_is_refused_after_a_mebibyte(served, begun):
    served.receive(STREAM + chunk(b"data: 1\n\n") + begun, *[b"x" * 60_000] * 18)

    assert served.owner.told[-1] == ("malformed", "trailers too large")
    assert served.sink.body == b"data: 1\n\n"
    assert served.transport.is_aborted


async def test_a_long_stream_in_single_bytes_has_no_trailers_too_large(served):
    served.receive(STREAM, *[bytes([byte]) for byte in chunk(b"data: %b\n\n" % (b"x" * 60)) * 300])

    assert len(served.sink.body) == 68 * 300
    assert served.owner.told == ["headers_seen"]


async def test_the_body_of_an_answer_that_nobody_asked_for_is_not_added_to_the_one_before_it(served):
    served.receive(WHOLE + WHOLE)

    assert served.sink.body == b"{}"
    assert served.owner.told == [("completed", False)]


@pytest.mark.parametrize("noise", [b"\0\0\0", b"HTTP/9 what", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n"])
@pytest.mark.parametrize("answer", [WHOLE, STREAM + chunk(b"data: 1\n\n") + LAST], ids=["whole", "stream"])
async def test_noise_after_an_answer_costs_the_connection_and_not_the_answer(answer, noise):
    """However it is cut into reads."""
    together, apart = Served().receive(answer + noise), Served().receive(answer, noise)

    assert together.owner.told[-1] == ("completed", False)
    assert together.sink.told == apart.sink.told
    assert together.sink.told[-1] == ("end",)
    assert apart.transport.is_closing()


async def test_what_came_before_a_broken_chunk_in_the_same_read_is_passed_on(served):
    served.receive(STREAM + chunk(b"data: 1\n\n") + b"zz\r\n")

    assert served.sink.body == b"data: 1\n\n"
    assert served.owner.told == [("malformed", "not HTTP/1.1")]
