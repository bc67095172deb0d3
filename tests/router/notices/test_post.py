"""One POST to one address."""

import pytest

from router.notices.post import post_json
from tests.tools.upstream import answer_json


@pytest.fixture
def proxied(monkeypatch):
    """A proxy that nobody answers at."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")


async def test_json_is_posted_to_this_machine_without_a_proxy(upstream, proxied, in_thread):
    upstream.scripts = [answer_json({"ok": True})]

    status = await in_thread(post_json, f"{upstream.base_url}/hook", b'{"text":"x"}')

    (seen,) = upstream.seen
    assert status == 200
    assert (seen.method, seen.path, seen.json) == ("POST", "/v1/hook", {"text": "x"})
    assert seen.headers["content-type"] == "application/json"


async def test_a_redirect_is_not_followed(upstream, other_upstream, in_thread):
    upstream.scripts = [answer_json({}, 307, {"location": other_upstream.base_url})]

    assert await in_thread(post_json, upstream.base_url, b"{}") == 307
    assert other_upstream.seen == []


async def test_an_error_status_is_returned(upstream, in_thread):
    upstream.scripts = [answer_json({}, 503)]

    assert await in_thread(post_json, upstream.base_url, b"{}") == 503


async def test_a_connection_that_is_closed_without_an_answer_is_an_os_error(upstream, in_thread):
    async def say_nonsense(wire, seen) -> None:
        await wire.send(b"nonsense\r\n\r\n")
        wire.writer.close()

    upstream.scripts = [say_nonsense]

    with pytest.raises(OSError, match="BadStatusLine"):
        await in_thread(post_json, upstream.base_url, b"{}")
