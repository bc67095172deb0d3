"""Listening, and an orderly stop."""

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any

import pytest
from structlog.testing import capture_logs

from router.config.certificate import TlsPaths
from router.contract.exchange import CancelReason
from router.edge import server
from router.edge.server import CannotListen, Server, bind, open_listener, run
from router.edge.tls import TlsFiles
from router.wiring.built import Built
from router.wiring.panels import build_edge
from tests.tools.certificates import client_context, write_pair
from tests.tools.edge import ANSWER, FakeRoad, answer_ok, wait_for_ever
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.raw import Caller
from tests.tools.waiting import later, some_turns, until


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com", ""])
def test_an_address_that_is_not_loopback_is_refused(host):
    with pytest.raises(CannotListen, match="not a loopback address"):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_is_listened_on(host):
    with contextlib.closing(bind(host, 0)) as listener:
        assert listener.getsockname()[1] > 0
        assert not listener.getblocking()


def test_a_port_that_is_taken_is_named_with_a_hint():
    with (
        contextlib.closing(bind("127.0.0.1", 0)) as listener,
        pytest.raises(CannotListen, match="another program uses this port"),
    ):
        bind("127.0.0.1", listener.getsockname()[1])


def test_of_two_that_bind_a_port_at_the_same_moment_the_second_is_told_that_it_is_taken(monkeypatch):
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))

        class Second(socket.socket):
            def bind(self, address: Any) -> None:
                super().bind(address)
                first.listen()

        monkeypatch.setattr(socket, "socket", Second)

        with pytest.raises(CannotListen, match="another program uses this port"):
            bind(*first.getsockname())


def test_a_coroutine_is_run_to_its_end():
    ran = []

    async def main() -> None:
        ran.append(asyncio.get_running_loop())

    run(main)

    assert len(ran) == 1


class Running:
    """A server whose stop a test asks for."""

    def __init__(self, road: FakeRoad, *, drain_seconds: float = 1.0, **more: Any) -> None:
        self.road, (self.admission, app) = road, build_edge(Built(road), lambda: True)
        self.stops, self._ready = 0, asyncio.Event()
        self.listener: socket.socket = bind("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.server = Server(
            self.admission, app, drain_seconds=drain_seconds, on_ready=self._ready.set, on_stop=self._count_stop, **more
        )

    def _count_stop(self) -> None:
        self.stops += 1

    async def __aenter__(self) -> "Running":
        self._serving = later(self.server.serve([self.listener]))
        await asyncio.wait_for(self._ready.wait(), 30)
        return self

    async def stopped(self) -> None:
        await asyncio.wait_for(self._serving, 30)

    async def __aexit__(self, *_: object) -> None:
        self.server.stop()
        self.server.stop()
        await self.stopped()
        for exchange in self.road.begun:
            exchange.cancel(CancelReason.STOPPING)
        await asyncio.sleep(0)
        self.listener.close()


def answer_later():
    """A road that answers once the event is set."""
    may_answer = asyncio.Event()

    async def slow(exchange, sink):
        await may_answer.wait()
        await answer_ok(exchange, sink)

    return slow, may_answer


async def begun(road: FakeRoad) -> None:
    async with asyncio.timeout(30):
        while not road.begun:  # noqa: ASYNC110  the road has no event for its first exchange
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
async def test_what_is_under_way_is_finished_before_the_stop(by_shim):
    slow, may_answer = answer_later()
    road = FakeRoad(slow)
    async with Running(road, drain_seconds=5) as running, Caller(running.port, by_shim=by_shim) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat()))
        await begun(road)
        running.server.stop()
        may_answer.set()

        reply = await caller.reply()
        await running.stopped()

    assert (reply.status, reply.body, running.stops) == (200, ANSWER, 1)


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
async def test_what_is_not_finished_in_time_is_left_for_the_house_to_stop_with_its_reason(by_shim):
    road = FakeRoad(wait_for_ever)
    async with Running(road, drain_seconds=0.3) as running, Caller(running.port, by_shim=by_shim) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat()))
        await begun(road)

        running.server.stop()
        await running.stopped()
        (exchange,) = road.begun
        reason = exchange.cancelled

    assert reason is None
    assert exchange.cancelled is CancelReason.STOPPING


async def test_a_second_signal_stops_at_once():
    async with Running(FakeRoad(wait_for_ever), drain_seconds=60) as running, Caller(running.port) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat()))
        await begun(running.road)
        running.server.stop()
        running.server.stop()

        await running.stopped()

    assert running.stops == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_asks_for_an_orderly_stop_and_a_closed_terminal_is_one(number, heard_signals):
    async with Running(FakeRoad()) as running:
        with running.server.hear_signals():
            os.kill(os.getpid(), number)
            await running.stopped()

    assert running.stops == 1


async def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with Running(FakeRoad()) as running:
            with running.server.hear_signals():
                os.kill(os.getpid(), signal.SIGHUP)
                await some_turns()
                stops = running.stops
    finally:
        signal.signal(signal.SIGHUP, before)

    assert stops == 0


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
async def test_while_it_still_listens_a_server_that_stops_serves_new_requests_and_announces_the_close(by_shim):
    async with (
        Running(FakeRoad(), stop_listening_after_seconds=600) as running,
        Caller(running.port, by_shim=by_shim) as old,
        Caller(running.port, by_shim=by_shim) as idle,
    ):
        running.server.stop()
        await until(lambda: running.server.is_stopping)

        await old.send(request_bytes("/v1/chat/completions", chat()))
        replies = [await old.reply(30), await call(running.port, "/v1/chat/completions", chat())]
        rest = await old.closed(30)
        running.server.stop()
        await running.stopped()
        end = await idle.closed(30)

    assert [(reply.status, reply.headers["connection"]) for reply in replies] == [(200, "close")] * 2
    assert (rest, end) == (b"", b"")


async def test_an_answer_that_has_not_begun_when_the_stop_comes_announces_the_close_too():
    slow, may_answer = answer_later()
    async with Running(road := FakeRoad(slow), stop_listening_after_seconds=600) as running, Caller(running.port) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat()))
        await begun(road)
        running.server.stop()
        await until(lambda: running.server.is_stopping)
        may_answer.set()

        reply = await caller.reply(30)

    assert (reply.status, reply.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
@pytest.mark.parametrize("sent_bytes", [10, -10], ids=["a part of its head", "a part of its body"])
async def test_a_request_that_has_begun_to_arrive_when_the_stop_comes_is_served(by_shim, sent_bytes):
    request = request_bytes("/v1/chat/completions", chat())
    async with Running(FakeRoad(), drain_seconds=600) as running, Caller(running.port, by_shim=by_shim) as caller:
        await caller.send(request[:sent_bytes])
        await some_turns()
        running.server.stop()
        await until(lambda: not running.server.listeners[0].is_serving())
        await caller.send(request[sent_bytes:])

        reply = await caller.reply(30)
        await running.stopped()

    assert (reply.status, reply.body, reply.headers["connection"]) == (200, ANSWER, "close")


async def test_a_balancer_may_still_use_a_connection_that_it_has_kept_when_new_ones_are_refused(monkeypatch):
    monkeypatch.setattr(server, "_KEPT_SECONDS", 600)
    async with Running(FakeRoad(), stop_listening_after_seconds=0.01) as running, Caller(running.port) as kept:
        await kept.send(request_bytes("/v1/chat/completions", chat()))
        await kept.reply(30)
        running.server.stop()
        await until(lambda: not running.server.listeners[0].is_serving())

        await kept.send(request_bytes("/v1/chat/completions", chat()))
        reply = await kept.reply(30)
        with pytest.raises(ConnectionRefusedError):
            await call(running.port, "/readyz")

    assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_callers_that_have_connected_and_were_not_accepted_when_the_stop_comes_are_served():
    async with Running(FakeRoad(), drain_seconds=600) as running:
        callers = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(20)]
        for caller in callers:  # the loop has not turned since the first connected
            caller.sendall(request_bytes("/v1/chat/completions", chat()))
        await running.server._shut_down([running.listener])
        replies = []
        for caller in callers:
            reader, writer = await asyncio.open_connection(sock=caller)
            replies.append(await asyncio.wait_for(read_reply(reader), 30))
            writer.close()

    assert [(reply.status, reply.body) for reply in replies] == [(200, ANSWER)] * 20


async def test_an_answer_that_its_caller_has_not_read_when_the_stop_comes_still_arrives_whole():
    size = 30_000_000

    async def answer_much(exchange, sink):
        sink.start(200, (("content-type", "text/plain"), ("content-length", str(size))))
        sink.write(b"x" * size)
        sink.end()

    async with (
        Running(FakeRoad(answer_much), drain_seconds=600) as running,
        Caller(running.port, holds_bytes=1 << 16) as caller,
    ):
        await caller.send(request_bytes("/v1/chat/completions", chat()))
        await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 30)
        running.server.stop()
        await until(lambda: not running.server.listeners[0].is_serving())

        rest = await caller.closed(30)
        await running.stopped()

    assert len(rest) == size


async def test_idle_connections_do_not_hold_a_stop_up_over_tls_where_a_close_waits_for_the_callers(tmp_path):
    write_pair(tmp_path)
    tls = TlsFiles(TlsPaths(tmp_path / "cert.pem", tmp_path / "key.pem"))
    async with (
        Running(FakeRoad(), drain_seconds=600, tls=tls) as running,
        Caller(running.port, tls=client_context()) as unused,
        Caller(running.port, tls=client_context()) as used,
    ):
        await used.send(request_bytes("/v1/chat/completions", chat()))
        reply = await used.reply(30)
        for caller in (unused, used):
            caller.writer.transport.pause_reading()  # so that neither notices the close
        running.server.stop()

        await running.stopped()

    assert reply.status == 200


async def test_a_hangup_that_is_dealt_with_does_not_stop_the_server(heard_signals):
    asked = []

    def reload() -> bool:
        asked.append("reload")
        return True

    async with Running(FakeRoad(), on_hangup=reload) as running:
        with running.server.hear_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: asked)
            stops, reply = running.stops, await call(running.port, "/v1/chat/completions", chat())

    assert (stops, reply.status) == (0, 200)


async def test_signals_after_the_stop_do_not_end_the_process_before_its_ledger_is_written(heard_signals):
    async with Running(FakeRoad()) as running:
        with running.server.hear_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            await running.stopped()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN


@pytest.fixture
def passed(monkeypatch):
    """Passes a socket as systemd does, but at its own number."""

    def give(given: socket.socket, count: str = "1", pid: int | None = None) -> None:
        monkeypatch.setattr("router.edge.server._FIRST_PASSED", given.detach())
        monkeypatch.setenv("LISTEN_FDS", count)
        monkeypatch.setenv("LISTEN_PID", str(pid or os.getpid()))

    return give


def test_a_socket_that_a_service_manager_passes_is_used_and_by_no_child(passed):
    given = socket.create_server(("127.0.0.1", 0))
    address = given.getsockname()
    passed(given)

    with open_listener("localhost", address[1]) as listener:
        assert listener.getsockname() == address
        assert (listener.get_inheritable(), listener.getblocking()) == (False, False)


@pytest.mark.parametrize(("named", "warned"), [(1, True), (0, False)])
def test_a_service_that_listens_elsewhere_than_the_config_says_is_named(passed, named, warned):
    given = socket.create_server(("127.0.0.1", 0))
    port = given.getsockname()[1]
    passed(given)

    with capture_logs() as log:
        listener = open_listener("127.0.0.1", named or port)

    listener.close()
    words = (
        f"the service listens on 127.0.0.1:{port}, and the config names 127.0.0.1:1; tandem service install changes the service"
    )
    assert [line["warning"] for line in log] == [words] * warned


def test_sockets_that_were_passed_to_another_process_are_left_alone(passed):
    passed(socket.create_server(("127.0.0.1", 0)), pid=1)

    with open_listener("127.0.0.1", 0) as listener:
        assert listener.fileno() != server._FIRST_PASSED
    os.close(server._FIRST_PASSED)


@pytest.mark.parametrize(
    ("family", "address", "words"),
    [
        (socket.AF_INET, ("0.0.0.0", 0), "0.0.0.0 is not a loopback address, and without caller keys"),
        (socket.AF_UNIX, "passed", "is not one that listens for TCP"),
        (socket.AF_INET, None, "is not one that listens for TCP"),
    ],
)
def test_a_passed_socket_that_cannot_serve_is_refused(passed, tmp_path, monkeypatch, family, address, words):
    monkeypatch.chdir(tmp_path)
    given = socket.socket(family)
    if address is not None:
        given.bind(address)
        given.listen()
    passed(given)

    with pytest.raises(CannotListen, match=words):
        open_listener("127.0.0.1", 0)


@pytest.mark.parametrize(("count", "words"), [("2", "the service passes 2 sockets"), ("", "the service passes no sockets")])
def test_a_service_passes_one_socket(passed, count, words):
    with socket.socket() as given:
        passed(given.dup(), count)

        with pytest.raises(CannotListen, match=words):
            open_listener("127.0.0.1", 0)
    os.close(server._FIRST_PASSED)
