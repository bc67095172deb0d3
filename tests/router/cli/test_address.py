"""Where the router is, and whether it is there."""

import asyncio
import socket
from contextlib import closing

import pytest

from router.cli.address import is_listening, is_tandem, url_of


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:4000"), ("::1", "http://[::1]:4000")])
def test_an_address_is_written_as_a_url_wants_it(host, url):
    assert url_of(host, 4000) == url


def test_somebody_listens_or_nobody_does():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = url_of(*server.getsockname())
        assert is_listening(url)

    assert not is_listening(url)
    assert not is_listening("http://127.0.0.1:x")


async def test_a_router_is_told_from_another_server(simulated):
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)

    async with other:
        assert await asyncio.to_thread(is_tandem, url_of("127.0.0.1", simulated.port))
        assert not await asyncio.to_thread(is_tandem, url_of(*other.sockets[0].getsockname()))
