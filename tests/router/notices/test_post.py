"""One POST to one address."""

import asyncio
import socket
import threading
from functools import partial

import pytest

from router.notices.post import post_json
from tests.tools.upstream import answer_json
from tests.tools.waiting import by_the_clock, until


@pytest.fixture
def proxied(monkeypatch):
    """A proxy that nobody answers at."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")


async def test_json_is_posted_to_this_machine_without_a_proxy(upstream, proxied, in_thread):
    upstream.scripts = [answer_json({"ok": True})]

    status = await in_thread(post_json, f"{upstream.base_url}/hook", b'{"text":"x"}', {"webhook-id": "evt_1"})

    (seen,) = upstream.seen
    assert status == 200
    assert (seen.method, seen.path, seen.json) == ("POST", "/v1/hook", {"text": "x"})
    assert (seen.headers["content-type"], seen.headers["webhook-id"]) == ("application/json", "evt_1")


@pytest.mark.parametrize("status", [307, 503])
async def test_any_status_is_returned_and_a_redirect_is_not_followed(upstream, other_upstream, in_thread, status):
    upstream.scripts = [answer_json({}, status, {"location": other_upstream.base_url})]

    assert await in_thread(post_json, upstream.base_url, b"{}") == status
    assert other_upstream.seen == []


async def test_a_connection_that_is_closed_without_an_answer_is_an_os_error(upstream, in_thread):
    async def say_nonsense(wire, seen) -> None:
        await wire.send(b"nonsense\r\n\r\n")
        wire.writer.close()

    upstream.scripts = [say_nonsense]

    with pytest.raises(OSError, match="BadStatusLine"):
        await in_thread(post_json, upstream.base_url, b"{}")


async def test_a_receiver_that_sends_a_byte_now_and_then_is_hung_up_on_when_the_time_is_over(upstream, in_thread):
    async def trickle(wire, seen) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nx-slow: ")
        while True:
            await wire.send(b"x")
            await by_the_clock(0.01)

    upstream.scripts = [trickle]

    with pytest.raises(TimeoutError):
        await in_thread(partial(post_json, upstream.base_url, b"{}", within_seconds=0.2))

    (seen,) = upstream.seen
    await asyncio.wait_for(seen.left.wait(), 30)


async def test_nothing_is_sent_once_the_time_is_over(upstream, in_thread, monkeypatch):
    looking, may_go_on = threading.Event(), threading.Event()

    def look_up_slowly(*given, look_up=socket.getaddrinfo, **more):
        looking.set()
        may_go_on.wait(30)
        return look_up(*given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_slowly)
    with pytest.raises(TimeoutError):
        await in_thread(partial(post_json, upstream.base_url, b"{}", within_seconds=0.05))
    assert looking.is_set()
    may_go_on.set()

    await until(lambda: upstream.connections)
    await until(lambda: not upstream.open_connections)
    assert upstream.seen == []


@pytest.mark.parametrize("begins", ["http://127.0.0.1", "http://localhost", "https://127.0.0.1"])
async def test_nothing_is_sent_to_a_private_address_that_is_not_allowed_nor_tls_begun(upstream, in_thread, begins):
    address = upstream.base_url.replace("http://127.0.0.1", begins)

    with pytest.raises(OSError, match="private"):
        await in_thread(partial(post_json, address, b"{}", allow_private=False))

    assert upstream.seen == []


async def test_a_proxy_alone_knows_what_a_name_means(upstream, in_thread, monkeypatch):
    upstream.scripts = [answer_json({})]
    monkeypatch.setenv("http_proxy", upstream.base_url)

    assert await in_thread(partial(post_json, "http://receiver.example/hook", b"{}", allow_private=False)) == 200
