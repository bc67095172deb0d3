import asyncio
import socket

import pytest

uvloop = pytest.importorskip("uvloop")

from tests.tools.closing_loop import ClosingLoop  # noqa: E402


def test_a_loop_with_an_open_server_closes_and_names_it():
    loop = ClosingLoop()
    server = loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
    address = server.sockets[0].getsockname()

    with pytest.warns(ResourceWarning, match=r"left something open: .*TCPServer"):
        loop.close()

    assert loop.is_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=30)


def test_a_loop_with_nothing_open_closes_without_a_word():
    loop = ClosingLoop()
    loop.run_until_complete(asyncio.sleep(0))

    loop.close()

    assert loop.is_closed()
