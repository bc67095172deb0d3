"""A socket's age, its silence and its readers. Frames and handshakes are walked in `tests/walk/test_sockets.py`."""

import asyncio
import contextlib

import pytest
from websockets.exceptions import ConnectionClosed

from router.contract.caller import LOCAL
from router.edge.admission import Admission
from router.edge.http.head import parse_head
from router.edge.listener import Place
from router.edge.websocket import connection
from tests.conftest import SIMULATED
from tests.tools.edge import FakeRoad, wait_for_ever
from tests.tools.running import running
from tests.tools.sockets import open_socket
from tests.tools.waiting import until

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)


async def test_a_socket_that_is_too_old_says_so_when_idle_and_closes(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_MAX_AGE_SECONDS", 0.05)
    monkeypatch.setattr(connection, "_PING_SECONDS", 0.1)
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        told = await socket.event()
        with pytest.raises(ConnectionClosed) as closed:
            await socket.event()

    assert (told["status"], told["error"]["code"]) == (400, "websocket_connection_limit_reached")
    assert closed.value.rcvd.code == 1000


async def test_on_a_socket_that_is_too_old_nothing_new_begins(tmp_path, monkeypatch):
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.ask("fix the typo")
        monkeypatch.setattr(connection, "_MAX_AGE_SECONDS", 0.0)
        await socket.say("fix the typo")

        assert (await socket.answer())["error"]["code"] == "websocket_connection_limit_reached"


async def test_a_socket_on_which_nothing_is_asked_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_MAX_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(connection, "_PING_SECONDS", 0.1)
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.event()

    assert closed.value.rcvd.code == 1001


async def test_a_socket_that_answers_no_ping_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_PING_SECONDS", 0.05)
    async with running(SIMULATED, tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(HANDSHAKE)
        received = await asyncio.wait_for(read_to_the_end(reader), 30)
        writer.close()

    assert received.endswith(b"\x89\x00" * 3)


async def read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(4096):
            received += piece
    return received


class Transport(asyncio.Transport):
    """A caller that reads nothing of what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.unread = 0

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return False

    def write(self, data) -> None:
        self.unread += len(data)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


async def test_a_caller_that_asks_and_reads_nothing_is_not_read_until_it_does():
    transport, admission = Transport(), Admission(FakeRoad(wait_for_ever))
    socket = connection.SocketConnection(admission, set(), Place({}, "an address"), parse_head(HANDSHAKE), LOCAL)
    socket.connection_made(transport)
    socket.data_received(HANDSHAKE)
    await until(lambda: transport.unread > 0)
    socket.data_received(b"\x81\x82\0\0\0\0{}")
    assert transport.calls == []

    transport.unread = 2 << 20
    socket.data_received(b"\x81\x82\0\0\0\0{}")
    assert transport.calls == ["pause"]
    socket.pause_writing()
    socket.resume_writing()
    assert transport.calls == ["pause", "resume"]
    socket.connection_lost(None)
