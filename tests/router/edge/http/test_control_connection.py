"""uvicorn's own protocol with our limits and our refusals, with a fake transport and a clock that a test moves."""

import asyncio
import json

import pytest
import uvicorn
from uvicorn.server import ServerState

from router.edge.admission import Admission
from router.edge.http.control_connection import ControlConnection
from router.edge.listener import Place
from tests.tools.edge import FakeRoad, FakeTransport
from tests.tools.http import request_bytes


class Transport(FakeTransport):
    def get_extra_info(self, name, default=None):
        return default


class Call:
    def __init__(self, road: FakeRoad, app) -> None:
        self.road, self.transport, self.loop = road, Transport(), asyncio.get_running_loop()
        config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, date_header=False, ws="none")
        config.load()
        self.connection = ControlConnection(
            Admission(road),
            Place({}, "an address"),
            4.0,
            asyncio.Protocol,
            config=config,
            server_state=ServerState(),
            app_state={},
        )
        self.connection.connection_made(self.transport)

    async def send(self, data: bytes) -> bytes:
        before = len(self.transport.written)
        self.connection.data_received(data)
        await self.loop.advance(0)
        return self.transport.written[before:]

    def refusal(self) -> tuple[int, str]:
        head, _, body = self.transport.written.rpartition(b"\r\n\r\n")
        assert b"connection: close" in head
        said = json.loads(body)
        request_id = said.get("request_id") or said["error"]["request_id"]
        assert f"x-tandem-request-id: {request_id}".encode() in head
        assert f"x-request-id: {request_id}".encode() in head
        return int(head.rpartition(b"HTTP/1.1 ")[2][:3]), said["error"]["code"]


async def hello(scope, receive, send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
async def make_call():
    made = []

    def make(app=hello, **limits) -> Call:
        made.append(Call(FakeRoad(**limits), app))
        return made[-1]

    yield make
    for call in made:
        call.connection.connection_lost(None)
        await call.loop.advance(0)


@pytest.fixture
async def call(make_call):
    return make_call()


async def test_a_request_is_served_and_the_connection_kept(call):
    for _ in range(2):
        assert (await call.send(request_bytes("/healthz"))).endswith(b"hi")
    await call.loop.advance(60)

    assert not call.transport.is_closed


async def test_an_idle_connection_is_closed_after_the_keep_alive_of_its_plan(make_call):
    call = make_call(keep_alive_seconds=3)
    await call.send(request_bytes("/healthz"))

    await call.loop.advance(3.1)

    assert call.transport.is_closed


async def test_the_first_head_has_the_time_that_was_left_and_the_next_the_full_one(call):
    await call.send(b"GET /healthz HT")
    await call.loop.advance(3.9)
    early = call.transport.written
    await call.send(b"TP/1.1\r\nhost: localhost\r\n\r\n")
    await call.send(b"PUT")
    await call.loop.advance(9)
    within = call.transport.has_eof
    await call.loop.advance(1.1)

    assert (early, within) == (b"", False)
    assert call.refusal() == (408, "body_timeout")


async def test_a_head_that_is_late_is_refused_as_json_and_lingers(call):
    await call.send(b"GET /v1/messages/x HTTP/1.1\r\nhost")
    await call.loop.advance(4.1)

    refused = call.transport.written
    await call.send(b": localhost\r\n\r\n")
    early = call.transport.is_closed
    await call.loop.advance(1.1)

    assert call.refusal() == (408, "body_timeout")
    assert json.loads(refused.rpartition(b"\r\n\r\n")[2])["type"] == "error"
    assert call.transport.written == refused
    assert (early, call.transport.has_eof, call.transport.is_closed) == (False, True, True)


async def test_a_head_without_end_is_refused_as_json(call):
    await call.send(b"GET /healthz HTTP/1.1\r\nx-a: " + b"b" * 70_000)

    assert call.refusal() == (431, "headers_too_large")


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("16030100a5010000a10303") + bytes(50),
        b"GET ftp://localhost/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://me@localhost/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http:///healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://localhost/healthz#x HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost : a\r\n\r\n",
        request_bytes("/v1/chat/completions", b"zz\r\n", {"transfer-encoding": "chunked"}),
        b"POST /v1/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/2.0\r\nhost: a\r\n\r\n",
        b"GET /healthz#x HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /healthz?a=b#x HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
    ids=[
        "tls", "another scheme", "a URL with a name", "a URL without a host", "a URL with a fragment", "space before colon", "bad chunk", "two codings", "two codings in two lines", "version",
        "fragment", "fragment behind a query",
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_refused_as_json_once(call, data):
    await call.send(data)

    assert call.refusal() == (400, "invalid_request")
    assert call.transport.written.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (b"http://localhost:4000/v1/responses?a=b", ("/v1/responses", b"a=b", b"localhost:4000")),
        (b"HTTPS://[::1]:4000", ("/", b"", b"[::1]:4000")),
        (b"http://other.example?a", ("/", b"a", b"other.example")),
    ],
)
async def test_an_absolute_url_is_read_as_its_path_and_its_host_counts(make_call, target, seen):
    scopes = []

    async def look(scope, receive, send) -> None:
        scopes.append(scope)
        await hello(scope, receive, send)

    answer = await make_call(look).send(b"GET " + target + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")

    (scope,) = scopes
    assert answer.endswith(b"hi")
    assert (scope["path"], scope["query_string"], dict(scope["headers"])[b"host"]) == seen


async def test_an_app_whose_request_breaks_off_hears_that_its_caller_is_gone(make_call):
    heard = []

    async def listen(scope, receive, send):
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    call = make_call(listen)
    await call.send(request_bytes("/v1/x", b"2\r\n{}\r\n", {"transfer-encoding": "chunked"}))
    await call.send(b"zz\r\n")

    assert heard == ["http.request", "http.disconnect"]
    assert call.refusal() == (400, "invalid_request")


async def test_a_whole_request_gets_its_answer_whatever_comes_behind_it(call):
    answer = await call.send(request_bytes("/healthz") + b"\x00\x01 noise\r\n\r\n")

    assert answer.endswith(b"hi")
    assert b"connection: close" in answer
    assert call.transport.is_closed


async def test_a_body_that_breaks_off_in_an_answer_ends_the_connection_without_a_second_status(make_call):
    async def early(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    call = make_call(early)
    await call.send(request_bytes("/v1/x", b"2\r\n{}\r\n", {"transfer-encoding": "chunked"}))
    await call.send(b"zz\r\n")

    assert call.transport.written.count(b"HTTP/1.1 ") == 1
    assert call.transport.is_closed
    for task in call.connection.tasks:
        task.cancel()
    await call.loop.advance(0)


async def test_a_caller_that_does_not_read_is_cut_at_the_write_limit(call):
    call.connection.pause_writing()
    await call.loop.advance(29)
    early = call.transport.is_aborted
    await call.loop.advance(2)

    assert (early, call.transport.is_aborted) == (False, True)


async def test_a_caller_that_catches_up_is_not_cut(call):
    call.connection.pause_writing()
    call.connection.resume_writing()

    await call.loop.advance(100)

    assert not call.transport.is_aborted


CHUNKED = request_bytes("/v1/x", b"2\r\n{}\r\n0\r\n\r\n", {"transfer-encoding": "chunked"})


async def test_fields_behind_a_chunked_body_are_no_headers(make_call):
    seen = []

    async def look(scope, receive, send):
        await hello(scope, receive, send)
        seen.append(dict(scope["headers"]))

    call = make_call(look)
    await call.send(CHUNKED[:-2] + b"host: evil\r\nx-tandem-tier: deep\r\n\r\n")
    await call.send(CHUNKED)

    assert len(seen) == 2
    assert seen[0] == seen[1]


class Waiting:
    """An app that answers nothing, and hears what each request hears."""

    def __init__(self) -> None:
        self.heard: list[list[str]] = []

    async def __call__(self, scope, receive, send) -> None:
        heard: list[str] = []
        self.heard.append(heard)
        while heard[-1:] != ["http.disconnect"]:
            heard.append((await receive())["type"])


@pytest.mark.parametrize("together", [True, False])
async def test_a_caller_that_leaves_is_noticed_though_a_second_request_waits_behind_the_first(make_call, together):
    app = Waiting()
    call = make_call(app)
    if together:
        await call.send(CHUNKED + CHUNKED)
    else:
        await call.send(CHUNKED)
        await call.send(CHUNKED)
    assert not call.transport.is_reading_paused

    call.connection.connection_lost(None)
    await call.loop.advance(0)

    assert app.heard == [["http.request", "http.disconnect"]]


async def test_a_second_request_is_served_after_the_first(call):
    answer = await call.send(CHUNKED + CHUNKED)

    assert answer.count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize(
    "flood",
    [CHUNKED * 70, CHUNKED + request_bytes("/v1/x", b"x" * 70_000, {"content-length": "70000"})],
    ids=["requests", "bytes"],
)
async def test_a_flood_behind_a_request_that_is_served_ends_the_connection(make_call, flood):
    call = make_call(Waiting())

    await call.send(flood)

    assert call.transport.is_aborted
