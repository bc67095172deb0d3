"""The route of the live feed, over a socket: who reads what, and what ends a reader."""

import asyncio
import contextlib
import json
import socket
from typing import ClassVar

import pytest

from router.config.load import check_config
from router.contract.facts import Recorded
from router.edge.server import Server, bind
from router.page import live
from router.wiring.build import build_house, known_names
from router.wiring.panels import build_edge
from tests.tools.http import call, chat, request_bytes
from tests.tools.kept import make_entry
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later, until

CONFIG = two_targets("http://127.0.0.1:9", "http://127.0.0.1:9")


class Reading:
    """A connection that reads the feed."""

    opened: ClassVar[list["Reading"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, path: str = "/tandem/feed", headers: dict | None = None, **more) -> "Reading":
        connection = socket.socket()
        for option, value in more.items():
            connection.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=connection)
        writer.write(request_bytes(path, headers=headers))
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        cls.opened.append(cls(reader, writer))
        return cls.opened[-1]

    async def event(self) -> tuple[str, dict]:
        name = (await self.reader.readuntil(b"event: ") and await self.reader.readline()).decode().strip()
        await self.reader.readuntil(b"data: ")
        return name, json.loads(await self.reader.readline())

    async def end(self) -> bytes:
        """What is left, up to the end of the answer."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n0\r\n\r\n"), 30)


@pytest.fixture(autouse=True)
async def closed():
    """Close what a test has opened."""
    yield
    while Reading.opened:
        (writer := Reading.opened.pop().writer).transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.fixture
def config(upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return two_targets(upstream.base_url, other_upstream.base_url)


async def test_a_request_is_seen_by_its_own_caller_and_by_admins(start, tmp_path, config):
    callers = Callers(tmp_path, ann={}, bob={}, boss={"admin": True})
    tandem = await start(KEYS + config)
    ann, bob, boss = [await Reading.open(tandem.port, headers=callers[name]) for name in ("ann", "bob", "boss")]
    hellos = [(await one.event())[1] for one in (ann, bob, boss)]

    await call(tandem.port, "/v1/chat/completions", chat(), callers["ann"])
    await call(tandem.port, "/v1/chat/completions", chat(), callers["bob"])

    assert [(hello["caller"], hello["admin"], hello["keys"]) for hello in hellos] == [
        ("ann", False, True),
        ("bob", False, True),
        ("boss", True, True),
    ]
    assert await rows_of(ann, 1) == ["ann"]
    assert await rows_of(bob, 1) == ["bob"]
    assert await rows_of(boss, 2) == ["ann", "bob"]


async def rows_of(reading: Reading, count: int) -> list[str]:
    """Whose the next rows are."""
    found: list[str] = []
    while len(found) < count:
        _, batch = await reading.event()
        found += [row["caller"] for row in batch["rows"]]
    return found


async def test_words_are_shown_only_where_texts_are_kept(start, config):
    tandem = await start(config)
    kept = await start(config.replace("{path: test.db}", "{path: kept.db, keep_text: true}"))
    readings = [await Reading.open(one.port, "/tandem/feed?words=1") for one in (tandem, kept)]
    hellos = [(await one.event())[1] for one in readings]

    for one in (tandem, kept):
        await call(one.port, "/v1/chat/completions", chat("fix it"))
    shown = []
    for reading in readings:
        while not (batch := (await reading.event())[1])["rows"]:
            pass
        shown.append(batch["rows"][0].get("words", "none"))

    assert [hello["keeps_text"] for hello in hellos] == [False, True]
    assert shown == ["none", "fix it"]


@pytest.mark.parametrize("left", [{"bob": {}}, {"ann": {}}], ids=["revoked", "replaced by another of the same name"])
async def test_a_reader_whose_key_is_gone_is_ended(start, tmp_path, config, left):
    callers = Callers(tmp_path, ann={})
    tandem = await start(KEYS + config)
    reading = await Reading.open(tandem.port, headers=callers["ann"])

    Callers(tmp_path, **left)
    swap(tandem, KEYS + config)

    assert await reading.end()


async def test_a_reader_that_logs_out_is_ended(start, tmp_path, config):
    callers = Callers(tmp_path, ann={})
    tandem = await start(KEYS + config)
    key = callers["ann"]["authorization"].removeprefix("Bearer ")
    login = await call(tandem.port, "/tandem/login", {"key": key}, {"x-tandem-page": "1"})
    cookie = {"cookie": login.headers["set-cookie"].partition(";")[0]}
    reading = await Reading.open(tandem.port, headers=cookie)
    other = await Reading.open(tandem.port, headers=callers["ann"])

    await call(tandem.port, "/tandem/logout", {}, {**cookie, "x-tandem-page": "1"})

    assert await reading.end()
    assert (await other.event())[0] == "hello"


async def test_a_place_in_an_earlier_ring_begins_with_all_that_is_held(start, config):
    tandem = await start(config)
    for _ in range(2):
        await call(tandem.port, "/v1/chat/completions", chat())
    ring = tandem.house.state.ring

    async def rows_after(place: str) -> int:
        reading = await Reading.open(tandem.port, headers={"last-event-id": place})
        await reading.event()
        await call(tandem.port, "/v1/chat/completions", chat())
        return len(await rows_of(reading, 1))

    assert await rows_after("another-1") == 3
    assert await rows_after(f"{ring.epoch}-3") == 1


async def test_a_reader_whose_key_expires_is_ended(start, tmp_path, config, monkeypatch):
    callers = Callers(tmp_path, ann={})
    tandem = await start(KEYS + config)
    keys = (tmp_path / "keys.yaml").read_text()
    (tmp_path / "keys.yaml").write_text(
        keys.replace("created: '2026-01-01'", "created: '2026-01-01'\n      expires: '2036-01-01'")
    )
    swap(tandem, KEYS + config)
    reading = await Reading.open(tandem.port, headers=callers["ann"])

    monkeypatch.setattr(live, "time", lambda: 2_100_000_000.0)

    assert await reading.end()


async def test_a_reload_turns_the_feed_off_and_ends_its_readers_and_on_again(start, tmp_path, config):
    tandem = await start(config)
    observers = tandem.house.state.observers
    before = len(observers.handlers[Recorded])
    reading = await Reading.open(tandem.port)

    (tmp_path / "config.yaml").write_text(config + "page: off\n")
    await tandem.built.reloader.reload()

    assert await reading.end()
    assert len(observers.handlers[Recorded]) == before - 1
    assert (await call(tandem.port, "/tandem/feed")).status == 404
    assert (await call(tandem.port, "/tandem/turns")).status == 404

    (tmp_path / "config.yaml").write_text(config)
    await tandem.built.reloader.reload()
    assert (await (await Reading.open(tandem.port)).event())[0] == "hello"


@pytest.mark.parametrize("after", ["x", "-1", "9" * 19])
async def test_a_place_that_is_no_number_is_refused(start, config, after):
    tandem = await start(config)

    assert (await call(tandem.port, f"/tandem/feed?after={after}")).status == 400


@contextlib.asynccontextmanager
async def draining(folder, **limits):
    """A router as users run it, whose drain would take longer than any test."""
    loaded = check_config(f"{CONFIG}\nlimits: {json.dumps(limits)}\n", "test", folder, known_names())
    built, ready, listener = build_house(loaded), asyncio.Event(), bind("127.0.0.1", 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    admission, app = build_edge(built, lambda: not server.is_stopping)
    server = Server(admission, app, drain_seconds=600, on_ready=ready.set)
    serving = later(server.serve([listener]))
    await asyncio.wait_for(ready.wait(), 30)
    try:
        yield built, server, serving, listener.getsockname()[1]
    finally:
        server.stop()
        server.stop()
        await asyncio.wait_for(serving, 30)
        await built.close()
        listener.close()


async def fill(built, server) -> None:
    """Finish requests until a reader that does not read can be sent no more."""
    take = built.house.state.ring.handlers()[Recorded]

    def is_paused() -> bool:
        for number in range(50):
            take(None, Recorded(make_entry(f"req_{number}")))
        return any(connection.flow.write_paused for connection in server.connections)

    await until(is_paused)


async def test_a_stop_waits_neither_for_readers_nor_for_one_that_does_not_read(tmp_path):
    async with draining(tmp_path) as (built, server, serving, port):
        stopped = await Reading.open(port, SO_RCVBUF=4_096)
        stopped.writer.transport.pause_reading()
        await fill(built, server)
        reading = await Reading.open(port)

        server.stop()

        assert await reading.end()
        await asyncio.wait_for(serving, 30)


async def test_a_reader_that_stops_reading_is_cut_off_by_the_limit_for_that(tmp_path):
    async with draining(tmp_path, write_idle_timeout_seconds=0.3) as (built, server, _, port):
        stopped = await Reading.open(port, SO_RCVBUF=4_096)
        stopped.writer.transport.pause_reading()

        await fill(built, server)

        await until(lambda: not server.connections)
        assert not server.is_stopping
