"""The link of the benchmark: its delay, its rate, its order."""

import asyncio
import contextlib

import pytest

from tests.bench.link import Shaper, open_link


def test_a_byte_takes_the_delay_and_many_bytes_take_the_rate_too():
    shaper = Shaper(delay_seconds=0.02, bytes_per_second=1_000_000)

    assert shaper.arrival(5.0, 1) == pytest.approx(5.020001)
    assert shaper.arrival(6.0, 100_000) == pytest.approx(6.12)


def test_what_is_sent_later_arrives_behind_what_is_still_under_way():
    shaper = Shaper(delay_seconds=0.02, bytes_per_second=1_000_000)
    shaper.arrival(0.0, 100_000)

    assert shaper.arrival(0.05, 10_000) == pytest.approx(0.13)
    assert shaper.bytes == 110_000


@contextlib.asynccontextmanager
async def echo():
    async def answer(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_an_echo_takes_a_round_trip_and_comes_back_as_it_was_sent():
    sent = bytes(range(256)) * 800
    async with echo() as port, open_link(port, round_trip_seconds=0.04, bits_per_second=16e6) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        loop = asyncio.get_running_loop()
        began = loop.time()
        writer.write(b"!")
        await asyncio.wait_for(reader.readexactly(1), 5)
        small = loop.time() - began
        writer.write(sent)
        received = await asyncio.wait_for(reader.readexactly(len(sent)), 5)
        large = loop.time() - began - small
        writer.close()

    assert received == sent
    assert small >= 0.04
    assert len(sent) / 2e6 + 0.04 <= large  # an echo sends while it still receives: the rate counts once
    assert small < 0.1 < large
    assert link.up.bytes == link.down.bytes == len(sent) + 1


async def test_a_close_arrives_after_what_was_sent():
    async def say_and_close(reader, writer):
        writer.write(b"last words")
        writer.close()

    server = await asyncio.start_server(say_and_close, "127.0.0.1", 0)
    async with open_link(server.sockets[0].getsockname()[1], round_trip_seconds=0.04, bits_per_second=16e6) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        received = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    server.close()

    assert received == b"last words"
