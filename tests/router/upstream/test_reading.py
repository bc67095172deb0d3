"""Targets that send much at once: their connections are read in turns."""

import asyncio

from router.upstream.reading import READ_BYTES, Turns
from tests.router.upstream.fakes import STREAM, Served, chunk


async def test_of_many_large_answers_one_is_read_in_each_round_of_the_loop():
    turns = Turns()
    served = [Served(turns) for _ in range(3)]
    for one in served:
        one.receive(STREAM, chunk(b"a" * READ_BYTES))

    found = []
    for _ in range(4):
        found.append([one.transport.is_reading for one in served])
        await asyncio.sleep(0)

    assert found == [[False] * 3, [True, False, False], [True, True, False], [True] * 3]


async def test_a_connection_that_waits_for_its_turn_is_not_read_before_it_when_its_caller_reads_on():
    turns = Turns()
    first, second = Served(turns), Served(turns)
    for one in (first, second):
        one.receive(STREAM, chunk(b"a" * READ_BYTES))
    second.connection.pause()
    second.connection.resume()

    await asyncio.sleep(0)
    assert (first.transport.is_reading, second.transport.is_reading) == (True, False)

    await asyncio.sleep(0)
    assert second.transport.is_reading


async def test_a_closed_connection_takes_no_turn():
    turns = Turns()
    closed, other = Served(turns), Served(turns)
    for one in (closed, other):
        one.receive(STREAM, chunk(b"a" * READ_BYTES))
    closed.connection.drop()

    await asyncio.sleep(0)

    assert (closed.transport.is_reading, other.transport.is_reading) == (False, True)
