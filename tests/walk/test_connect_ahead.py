"""Both tiers are connected before a session's first request needs them."""

import asyncio

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.running import running, two_targets
from tests.tools.socket_upstream import SocketUpstream
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Upstream
from tests.tools.waiting import some_turns, until

pytestmark = pytest.mark.wire


async def settle(has_come) -> None:
    """Wait for an event, then until no dial is under way that a surplus would need."""
    await until(has_come)
    await until(lambda: not any("connect" in task.get_name() for task in asyncio.all_tasks()))
    await some_turns()


async def test_a_caller_that_opens_a_socket_finds_one_connection_to_each_tier_before_it_asks(
    upstream, other_upstream, tmp_path
):
    upstream.scripts = other_upstream.scripts = [speak("chat", Speech("ok"))]
    config = two_targets(upstream.base_url, other_upstream.base_url)
    async with running(config, tmp_path) as tandem, open_socket(tandem.port) as socket:
        await settle(lambda: upstream.connections and other_upstream.connections)
        before = (upstream.connections, other_upstream.connections)
        for tier in ("fast", "deep"):
            await socket.ask("fix the typo", client_metadata={"x-tandem-tier": tier})
        after = (upstream.connections, other_upstream.connections)

    assert before == (1, 1)
    assert after == (1, 1)  # both requests used existing connections
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)


async def test_the_first_request_of_a_session_connects_to_the_other_tier_too(upstream, other_upstream, tmp_path):
    upstream.scripts = other_upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(two_targets(upstream.base_url, other_upstream.base_url), tmp_path) as tandem:
        await call(tandem.port, "/v1/chat/completions", chat(), headers={"x-tandem-tier": "fast"})
        await settle(lambda: other_upstream.connections)
        counts = (upstream.connections, other_upstream.connections)

    assert counts == (1, 1)
    assert other_upstream.seen == []


async def test_two_targets_at_one_address_share_what_is_there(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(two_targets(upstream.base_url, upstream.base_url), tmp_path) as tandem:
        await call(tandem.port, "/v1/chat/completions", chat())
        await settle(lambda: upstream.connections)

    assert upstream.connections == 1


async def test_a_target_that_cannot_be_reached_is_heard_of_only_when_it_is_needed(upstream, tmp_path, listen):
    gone = Upstream()
    await gone.start()
    url = gone.base_url
    await gone.stop()
    upstream.scripts = [speak("chat", Speech("ok"))]
    logged = listen()
    async with running(two_targets(upstream.base_url, url), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await settle(lambda: upstream.connections)
        await socket.ask("fix the typo", client_metadata={"x-tandem-tier": "fast"})

    assert [line["event"] for line in logged() if line["level"] in ("warning", "error")] == []


async def test_simulated_targets_are_dialled_by_nobody(tmp_path):
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        answer = await socket.ask("fix the typo")

    assert answer["status"] == "completed"


@pytest.mark.parametrize("beta", [{}, {"openai_beta": "responses_websockets=2026-02-06"}])
async def test_a_target_on_a_socket_has_one_open_before_the_first_request(tmp_path, beta):
    target = SocketUpstream()
    await target.start()
    each = f'base_url: "{target.base_url}", dialect: responses, upstream_transport: websocket, window_tokens: 400000'
    config = f"""
ledger: {{path: test.db}}
tiers:
  fast: {{targets: [{{name: spark, {each}}}]}}
  deep: {{targets: [{{name: sage, {each}}}]}}
"""
    async with running(config, tmp_path) as tandem, open_socket(tandem.port, **beta) as socket:
        await settle(lambda: target.sockets == 2)
        await socket.ask("fix the typo", client_metadata={"x-tandem-tier": "fast"})
    await target.stop()

    assert target.sockets == 2
    assert target.accepted == 2
    assert len(target.seen) == 1
