"""Frames to messages: floods, halves, and what comes too late. Whole sockets are walked in `tests/walk/test_sockets.py`."""

import asyncio
import struct
import threading

import pytest
from websockets.server import ServerProtocol

from router.edge.admission import Admission
from router.edge.websocket.incoming import Incoming
from tests.tools.edge import FakeRoad, wait_for_ever
from tests.tools.waiting import by_the_clock

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
PING, CLOSE = b"\x89\x80\0\0\0\0", b"\x88\x82\0\0\0\0\x03\xe8"


def text(data: bytes, *, head: int = 0x81) -> bytes:
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    else:
        size = b"\xfe" + struct.pack(">H", len(data)) if len(data) < 65_536 else b"\xff" + struct.pack(">Q", len(data))
    return bytes([head]) + size + b"\0\0\0\0" + data


class Reader:
    """An `Incoming` after its handshake."""

    def __init__(self, *, understands: bool = True, **limits) -> None:
        self.messages: list[bytes] = []
        self.flushed = asyncio.Event()
        self.protocol = ServerProtocol(max_size=20 << 20)
        admission, self.understands = Admission(FakeRoad(wait_for_ever, **limits)), understands
        self.read_in: list[str] = []
        self.incoming = Incoming(admission, asyncio.get_running_loop(), self.read, self.receive, self.flushed.set)
        self.take(HANDSHAKE)

    def read(self, message: bytes) -> bytes:
        self.read_in.append(threading.current_thread().name)
        return message

    def receive(self, message: bytes) -> bool:
        self.messages.append(message)
        return self.understands

    def take(self, data: bytes) -> None:
        self.incoming.take(self.protocol, data)

    async def settle(self) -> None:
        """Wait until all that came is worked through."""
        async with asyncio.timeout(30):
            while self.incoming.is_busy:  # noqa: ASYNC110  it works in a thread
                await asyncio.sleep(0)

    @property
    def close_code(self) -> int | None:
        return self.protocol.close_sent.code if self.protocol.close_sent else None


@pytest.fixture
async def make_reader():
    """Makes readers, which are closed with the test."""
    made: list[Reader] = []

    def make(**more) -> Reader:
        made.append(Reader(**more))
        return made[-1]

    yield make
    for each in made:
        each.incoming.close()


@pytest.fixture
async def reader(make_reader):
    return make_reader()


async def test_a_message_is_handed_on_whole_however_it_comes(reader):
    data = text(b"one") + text(b"tw", head=0x01) + PING + text(b"o", head=0x80)
    for byte in data:
        reader.take(bytes([byte]))

    assert reader.messages == [b"one", b"two"]
    assert reader.close_code is None


@pytest.mark.parametrize("frame", [PING, b"\x8a\x80\0\0\0\0", text(b"x")], ids=["pings", "pongs", "nonsense"])
async def test_a_flood_of_frames_without_a_message_that_is_served_ends_the_socket(make_reader, frame):
    reader = make_reader(understands=False)
    reader.take(frame * 100_000)
    await reader.settle()

    assert reader.close_code == 1008
    assert len(reader.messages) < 5_000


async def test_a_million_pieces_of_one_byte_end_the_socket_before_they_are_all_read(reader):
    reader.take(text(b"x", head=0x01) + text(b"x", head=0x00) * 1_000_000)
    await reader.settle()

    assert reader.close_code == 1008
    assert reader.messages == []


async def test_messages_that_are_served_may_be_as_many_as_they_like(reader):
    for _ in range(6_000):
        reader.take(PING + text(b"x"))

    assert reader.close_code is None


@pytest.mark.parametrize("half", [text(b"half", head=0x01), text(b"x" * 1_000)[:200]], ids=["a piece", "half a frame"])
async def test_a_message_that_is_never_finished_ends_the_socket(make_reader, half):
    reader = make_reader(body_timeout_seconds=0.05, min_body_bytes_per_second=8_192)
    reader.take(half)
    await asyncio.wait_for(reader.flushed.wait(), 30)

    assert reader.close_code == 1008


async def test_a_message_that_comes_at_a_fair_pace_may_take_its_time(make_reader):
    reader = make_reader(body_timeout_seconds=0.02, min_body_bytes_per_second=100)
    frame = text(b"x" * 100)
    for begin in range(0, len(frame), 20):
        reader.take(frame[begin : begin + 20])
        await by_the_clock(0.02)

    assert len(reader.messages) == 1
    assert reader.close_code is None


async def test_nothing_is_done_for_what_comes_together_with_a_close_or_after_it(reader):
    reader.take(text(b"before") + CLOSE + text(b"after"))
    reader.take(text(b"later"))

    assert reader.messages == []
    assert reader.close_code == 1000


async def test_heavy_messages_are_read_in_a_thread_and_light_ones_on_the_loop(reader):
    reader.take(text(b"a") + text(b"b" * 600_000) + text(b"c"))
    await reader.settle()

    here = threading.current_thread().name
    assert [name == here for name in reader.read_in] == [True, False, True]
    assert [len(message) for message in reader.messages] == [1, 600_000, 1]


async def test_messages_that_are_refused_count_by_their_size(make_reader):
    reader = make_reader(understands=False)
    reader.take(text(b" " * (19 << 20)) * 6)
    await reader.settle()

    assert reader.close_code == 1008
    assert len(reader.messages) == 4


async def test_a_message_that_is_marked_as_compressed_ends_the_socket(reader):
    reader.take(text(b"x", head=0xC1))

    assert reader.close_code == 1002


async def test_many_light_messages_leave_others_their_turns(make_reader):
    reader, turns = make_reader(), 0
    reader.take(text(b"x") * 4_000)
    while reader.incoming.is_busy:
        turns += 1
        await asyncio.sleep(0)

    assert len(reader.messages) == 4_000
    assert turns >= 10


async def test_a_socket_that_is_closed_while_a_heavy_message_is_read_hears_nothing_of_it(reader):
    reader.take(text(b"b" * 600_000) + text(b"c"))
    reader.incoming.close()
    await reader.settle()

    assert reader.messages == []
