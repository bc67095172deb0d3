"""Reloads and revoked keys in the middle of a stream and on an open socket."""

import asyncio
import gc
import weakref

import pytest
from websockets.exceptions import ConnectionClosed

from router.contract.keys import make_key
from router.wiring.key_watch import LOOK_SECONDS
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, DONE, GOOD_CHAT_STREAM, answer_json
from tests.tools.waiting import later, until

STREAMS = 50


class Held:
    """Streams that stop after their first piece until released."""

    def __init__(self) -> None:
        self.go, self.held = asyncio.Event(), 0

    async def __call__(self, wire, seen) -> None:
        if not seen.json.get("stream"):
            await answer_json(CHAT_ANSWER)(wire, seen)
            return
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(GOOD_CHAT_STREAM[0])
        self.held += 1
        await self.go.wait()
        for piece in GOOD_CHAT_STREAM[1:]:
            await wire.chunk(piece)
        await wire.end_chunks()


async def test_streams_end_on_the_old_targets_new_requests_go_to_the_new_and_the_old_plan_is_freed(
    start, upstream, other_upstream, tmp_path
):
    held = Held()
    upstream.scripts, other_upstream.scripts = [held], [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    old = weakref.ref(tandem.house.plan.dispatcher)  # each plan has its own
    streams = [later(call(tandem.port, "/v1/chat/completions", chat(stream=True))) for _ in range(STREAMS)]
    await until(lambda: held.held == STREAMS)
    moved = two_targets(other_upstream.base_url, other_upstream.base_url).replace("name: spark", "name: swift")
    (tmp_path / "config.yaml").write_text(moved)

    done = await tandem.built.reloader.reload()
    during = await call(tandem.port, "/v1/chat/completions", chat())
    held.go.set()
    replies = await asyncio.gather(*streams)

    assert "tiers.fast (spark, swift)" in done.changes.applied
    assert {(reply.status, reply.is_whole, DONE in reply.body) for reply in replies} == {(200, True, True)}
    assert {reply.headers["x-tandem-target"] for reply in replies} == {"spark"}
    assert (during.status, during.headers["x-tandem-target"]) == (200, "swift")
    await until(lambda: upstream.open_connections == 0)  # idle connections to a removed target are closed
    del streams, replies
    await until(lambda: gc.collect() >= 0 and old() is None)  # the last entries are written a few milliseconds later


async def test_a_target_that_stays_keeps_its_idle_connections_and_figures(start, upstream, other_upstream, tmp_path):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url))
    await call(tandem.port, "/v1/chat/completions", chat())
    before = upstream.connections
    (tmp_path / "config.yaml").write_text(two_targets(upstream.base_url, other_upstream.base_url, extra="preference: speed"))

    await tandem.built.reloader.reload()
    await call(tandem.port, "/v1/chat/completions", chat())

    assert upstream.connections == before


async def test_a_revoked_key_lets_its_answers_end_and_then_is_refused_over_http_and_its_socket_closed(
    start, upstream, other_upstream, tmp_path
):
    held, key = Held(), make_key()
    upstream.scripts = other_upstream.scripts = [held]
    file = tmp_path / "keys.yaml"
    file.write_text(
        f"callers: {{ada: {{keys: [{{id: '{key.id}', sha256: {key.digest.hex()}, created: 2026-01-01T00:00:00Z}}]}}}}\n"
    )
    file.chmod(0o600)
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra="keys: {file: keys.yaml}"))
    watch, sent = tandem.built.key_watch, {"authorization": f"Bearer {key.text}"}
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    async with open_socket(tandem.port, **sent) as socket:
        writer.write(request_bytes("/v1/chat/completions", chat(stream=True), sent))
        await socket.say()
        await until(lambda: held.held == 2)

        file.write_text("callers: {ada: {}}\n")
        await watch.look()
        held.go.set()
        stream, answer = await read_reply(reader), await socket.answer()
        writer.write(request_bytes("/v1/chat/completions", chat(), sent))
        after = await read_reply(reader)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.answer()
    writer.close()

    assert (stream.status, stream.is_whole, DONE in stream.body) == (200, True, True)
    assert answer["type"] == "response.completed"
    assert (after.status, after.json["error"]["code"]) == (401, "unauthorized")
    assert closed.value.rcvd.code == 1008
    assert LOOK_SECONDS < 5
