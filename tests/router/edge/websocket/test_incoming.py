"""Frames to messages: floods, halves, and what comes too late. Whole sockets are walked in `tests/walk/test_sockets.py`."""

import asyncio
import struct

import pytest
from websockets.server import ServerProtocol

from router.edge.websocket.incoming import Incoming
from tests.tools.edge import FakeRoad, wait_for_ever

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
PING, CLOSE = b"\x89\x80\0\0\0\0", b"\x88\x82\0\0\0\0\x03\xe8"


def text(data: bytes, *, head: int = 0x81) -> bytes:
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return bytes([head]) + size + b"\0\0\0\0" + data


class Reader:
    """An `Incoming` after its handshake."""

    def __init__(self, *, understands: bool = True, **limits) -> None:
        self.messages: list[bytes] = []
        self.flushed = asyncio.Event()
        self.protocol = ServerProtocol(max_size=1 << 20)
        road, self.understands = FakeRoad(wait_for_ever, **limits), understands
        self.incoming = Incoming(asyncio.get_running_loop(), lambda: road.plan.limits, self.receive, self.flushed.set)
        self.take(HANDSHAKE)

    def receive(self, message: bytes) -> bool:
        self.messages.append(message)
        return self.understands

    def take(self, data: bytes) -> None:
        self.incoming.take(self.protocol, data)

    @property
    def close_code(self) -> int | None:
        return self.protocol.close_sent.code if self.protocol.close_sent else None


async def test_a_message_is_handed_on_whole_however_it_comes():
    reader = Reader()
    data = text(b"one") + text(b"tw", head=0x01) + PING + text(b"o", head=0x80)
    for byte in data:
        reader.take(bytes([byte]))

    assert reader.messages == [b"one", b"two"]
    assert reader.close_code is None
    reader.incoming.close()


@pytest.mark.parametrize("frame", [PING, b"\x8a\x80\0\0\0\0", text(b"x")], ids=["pings", "pongs", "nonsense"])
async def test_a_flood_of_frames_without_a_message_that_is_served_ends_the_socket(frame):
    reader = Reader(understands=False)
    reader.take(frame * 100_000)

    assert reader.close_code == 1008
    assert len(reader.messages) < 5_000
    reader.incoming.close()


async def test_a_million_pieces_of_one_byte_end_the_socket_before_they_are_all_read():
    reader = Reader()
    reader.take(text(b"x", head=0x01) + text(b"x", head=0x00) * 1_000_000)

    assert reader.close_code == 1008
    assert reader.messages == []
    reader.incoming.close()


async def test_messages_that_are_served_may_be_as_many_as_they_like():
    reader = Reader()
    for _ in range(6_000):
        reader.take(PING + text(b"x"))

    assert reader.close_code is None
    reader.incoming.close()


@pytest.mark.parametrize("half", [text(b"half", head=0x01), text(b"x" * 1_000)[:200]], ids=["a piece", "half a frame"])
async def test_a_message_that_is_never_finished_ends_the_socket(half):
    reader = Reader(body_timeout_seconds=0.05, min_body_bytes_per_second=8_192)
    reader.take(half)
    await asyncio.wait_for(reader.flushed.wait(), 30)

    assert reader.close_code == 1008


async def test_a_message_that_comes_at_a_fair_pace_may_take_its_time():
    reader = Reader(body_timeout_seconds=0.02, min_body_bytes_per_second=100)
    frame = text(b"x" * 100)
    for begin in range(0, len(frame), 20):
        reader.take(frame[begin : begin + 20])
        await asyncio.sleep(0.02)

    assert len(reader.messages) == 1
    assert reader.close_code is None
    reader.incoming.close()


async def test_nothing_is_done_for_what_comes_together_with_a_close_or_after_it():
    reader = Reader()
    reader.take(text(b"before") + CLOSE + text(b"after"))
    reader.take(text(b"later"))

    assert reader.messages == []
    assert reader.close_code == 1000
    reader.incoming.close()
