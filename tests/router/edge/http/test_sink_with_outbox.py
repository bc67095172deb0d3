"""Answers that leave together."""

import asyncio

from router.contract.errors import UpstreamCut
from router.edge.http.sink import CallerSink
from router.loop.together import Outbox
from tests.tools.edge import FakeTransport

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Connection:
    is_paused = False


class ClosedTransport(FakeTransport):
    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


def busy_outbox() -> Outbox:
    """One from which something has left in this turn."""
    outbox = Outbox()
    answer(outbox, FakeTransport()).end()
    return outbox


def answer(outbox: Outbox, transport: FakeTransport) -> CallerSink:
    """A whole answer, up to its last byte."""
    sink = CallerSink(Connection(), transport, False, True, outbox)
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
    sink = CallerSink(Connection(), transport, False, True, outbox)

    sink.start(200, ())
    sink.write(b"ok")

    assert transport.written.endswith(b"2\r\nok\r\n")


async def test_a_caller_that_is_gone_costs_the_others_nothing():
    outbox, gone, there = busy_outbox(), ClosedTransport(), FakeTransport()

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
