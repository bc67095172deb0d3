"""An answer on its way to a caller's transport."""

import asyncio

import pytest

from router.contract.errors import UpstreamCut
from router.contract.sinks import Waiting
from router.edge.http.sink import CallerSink, forget_date, write_head
from router.loop.together import Outbox
from tests.tools.edge import FakeTransport


class Connection:
    is_paused = False


@pytest.fixture(autouse=True)
def dated(monkeypatch):
    monkeypatch.setattr("router.edge.http.sink.formatdate", lambda usegmt: "today")
    forget_date()
    yield
    forget_date()


@pytest.fixture
def transport():
    return FakeTransport()


def make_sink(transport, **more) -> CallerSink:
    return CallerSink(Connection(), transport, closes=more.pop("closes", False), **more)


def test_a_date_is_made_once_until_it_is_forgotten(monkeypatch):
    dates = iter(["Wed, 18 Nov 2026 01:00:00 GMT", "Wed, 18 Nov 2026 01:00:01 GMT"])
    monkeypatch.setattr("router.edge.http.sink.formatdate", lambda usegmt: next(dates))
    forget_date()

    before = [write_head(200, (), closes=False)[0] for _ in range(2)]
    forget_date()
    after = write_head(200, (), closes=False)[0]

    assert before == [b"HTTP/1.1 200 OK\r\ndate: Wed, 18 Nov 2026 01:00:00 GMT\r\ntransfer-encoding: chunked\r\n\r\n"] * 2
    assert b"\r\ndate: Wed, 18 Nov 2026 01:00:01 GMT\r\n" in after


def test_a_head_with_a_length_is_not_chunked():
    head, is_chunked = write_head(200, (("content-length", "3"),), closes=False)

    assert head == b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 3\r\n\r\n"
    assert not is_chunked


def test_a_head_without_a_length_is_chunked_unless_the_caller_cannot_read_chunks():
    (new, new_chunks), (old, old_chunks) = (
        write_head(200, (("x-a", "b"),), closes=True, may_chunk=may) for may in (True, False)
    )

    assert new == b"HTTP/1.1 200 OK\r\ndate: today\r\nx-a: b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    assert old == b"HTTP/1.1 200 OK\r\ndate: today\r\nx-a: b\r\nconnection: close\r\n\r\n"
    assert (new_chunks, old_chunks) == (True, False)


def test_a_status_that_has_no_name_still_has_a_status_line():
    assert write_head(529, (), closes=False)[0].startswith(b"HTTP/1.1 529 Status\r\n")


def test_a_fact_is_a_comment_between_two_pieces(transport):
    sink = make_sink(transport, may_chunk=False)

    sink.start(200, ())
    sink.tell(Waiting("spark", 1, 2, 4.0))
    sink.write(b"data: {}\n\n")

    assert bytes(transport.written).endswith(b"\r\n\r\n: waiting for spark, position 1 of 2, about 4 s\n\ndata: {}\n\n")


def test_head_and_first_piece_leave_in_one_write(transport):
    writes = []
    transport.write = writes.append
    sink = make_sink(transport)

    sink.start(200, ())
    sink.write(b"ab")
    sink.write(b"cde")
    sink.end()

    assert len(writes) == 3
    assert writes[0].endswith(b"\r\n\r\n2\r\nab\r\n")
    assert writes[1:] == [b"3\r\ncde\r\n", b"0\r\n\r\n"]


def test_an_answer_without_a_body_still_sends_its_head(transport):
    sink = make_sink(transport)

    sink.start(204, (("content-length", "0"),))
    sink.end()

    assert transport.written == b"HTTP/1.1 204 No Content\r\ndate: today\r\ncontent-length: 0\r\n\r\n"
    assert (sink.has_started, sink.has_ended, sink.is_over) == (True, True, True)


def test_an_answer_that_fails_has_no_last_chunk(transport):
    sink = make_sink(transport)

    sink.start(200, ())
    sink.write(b"ab")
    sink.fail(UpstreamCut("spark", "cut"))

    assert not transport.written.endswith(b"0\r\n\r\n")
    assert transport.is_closed
    assert (sink.has_ended, sink.is_over) == (False, True)


@pytest.mark.parametrize("finish", [CallerSink.end, lambda sink: sink.fail(UpstreamCut("spark", "cut"))], ids=["end", "fail"])
def test_an_answer_that_is_over_moves_no_flow(transport, finish):
    class Flow:
        def pause(self) -> None:
            raise AssertionError

        resume = pause

    sink = make_sink(transport)
    sink.feed_from(Flow())
    finish(sink)

    sink.set_backpressure(is_paused=True)
    sink.set_backpressure(is_paused=False)


class GoneTransport:
    """What uvloop leaves of a connection that was reset, until it tells of it."""

    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


def test_a_caller_that_reset_its_connection_is_written_to_without_a_word():
    sink = make_sink(GoneTransport())

    sink.start(200, (("content-type", "text/event-stream"),))
    sink.write(b"data: 1\n\n")
    sink.end()

    assert sink.has_ended


WHOLE = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 2\r\n\r\nok"


def busy_outbox() -> Outbox:
    """One from which something has left in this turn."""
    outbox = Outbox()
    answer(outbox, FakeTransport()).end()
    return outbox


def answer(outbox: Outbox, transport: FakeTransport) -> CallerSink:
    """A whole answer, up to its last byte."""
    sink = make_sink(transport, _outbox=outbox)
    sink.start(200, (("content-length", "2"),))
    sink.write(b"ok")
    return sink


async def test_of_the_whole_answers_of_one_turn_the_first_leaves_at_once_and_the_others_when_it_is_over():
    outbox, transports = Outbox(), [FakeTransport() for _ in range(3)]

    for transport in transports:
        answer(outbox, transport).end()
    before = [transport.written for transport in transports]
    await asyncio.sleep(0)

    assert before == [WHOLE, b"", b""]
    assert [transport.written for transport in transports] == [WHOLE] * 3


async def test_the_pieces_of_a_stream_do_not_wait():
    transport = FakeTransport()
    outbox = busy_outbox()
    sink = make_sink(transport, _outbox=outbox)

    sink.start(200, ())
    sink.write(b"ok")

    assert transport.written.endswith(b"2\r\nok\r\n")


async def test_a_caller_that_is_gone_costs_the_others_nothing():
    outbox, gone, there = busy_outbox(), GoneTransport(), FakeTransport()

    answer(outbox, gone).end()
    answer(outbox, there).end()
    await asyncio.sleep(0)

    assert there.written == WHOLE


async def test_what_was_written_leaves_before_an_answer_that_fails_is_cut():
    outbox, transport = busy_outbox(), FakeTransport()
    at_close = []
    close, transport.close = transport.close, lambda: (at_close.append(transport.written), close())

    answer(outbox, transport).fail(UpstreamCut("quick", "cut"))

    assert at_close == [WHOLE]


async def test_an_outbox_serves_again_and_again():
    outbox, transport = Outbox(), FakeTransport()

    for _ in range(3):
        answer(outbox, transport).end()
        await asyncio.sleep(0)

    assert transport.written == WHOLE * 3
