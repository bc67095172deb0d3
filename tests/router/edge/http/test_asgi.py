"""Create calls over ASGI, by messages alone."""

import asyncio
import json
import threading

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import UpstreamCut
from router.contract.exchange import CancelReason
from router.contract.sinks import Waiting
from router.edge.admission import Admission
from router.edge.control.health import Health
from router.edge.http.asgi import NO_PROBES, AsgiApp, AsgiSink
from router.telemetry import events
from tests.tools.edge import ANSWER, FakeRoad, Flow, answer_ok, wait_for_ever
from tests.tools.waiting import later


class Asgi:
    """A server's side of one request: what is received, what was sent."""

    def __init__(self, *messages: dict, method: str = "POST", path: str = "/v1/messages", **headers: str) -> None:
        named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
        self._messages: asyncio.Queue = asyncio.Queue()
        for message in messages:
            self._messages.put_nowait(message)
        self.sent: list[dict] = []
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def receive(self) -> dict:
        return await self._messages.get()

    async def send(self, message: dict) -> None:
        await self.may_send.wait()
        self.sent.append(message)

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


def piece(body: bytes, *, more: bool = False) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


async def no_control(scope, receive, send) -> None:
    raise AssertionError


class App:
    def __init__(self, road: FakeRoad, control=no_control) -> None:
        self.road, self.admission = road, Admission(road)
        self._app = AsgiApp(self.admission, lambda: control)

    async def __call__(self, asgi: Asgi) -> None:
        await self._app(asgi.scope, asgi.receive, asgi.send)


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def started(app: App, asgi: Asgi) -> "asyncio.Task[None]":
    serving = later(app(asgi))
    await turn()
    return serving


async def test_a_create_call_is_served_with_its_whole_body():
    app, asgi = App(FakeRoad()), Asgi(piece(b"{", more=True), piece(b"}"))

    await app(asgi)

    assert (asgi.status, asgi.body, asgi.sent[-1]["more_body"]) == (200, ANSWER, False)
    assert (app.road.begun[0].arrival.raw, app.road.begun[0].caller) == (b"{}", LOCAL)
    assert app.admission.in_flight == 0


async def test_a_refusal_before_the_body_reads_none_of_it():
    app, asgi = App(FakeRoad()), Asgi(content_type="text/plain")

    await app(asgi)

    assert (asgi.status, json.loads(asgi.body)["type"]) == (415, "error")
    assert (b"connection", b"close") in asgi.sent[0]["headers"]


async def test_a_body_over_the_limit_is_refused_and_its_slot_is_free():
    app = App(FakeRoad(max_body_bytes=10))
    asgi = Asgi(piece(b"x" * 8, more=True), piece(b"x" * 8, more=True))

    await app(asgi)

    assert (asgi.status, app.admission.in_flight) == (413, 0)


async def test_a_body_that_does_not_come_is_a_408():
    app, asgi = App(FakeRoad()), Asgi(piece(b"{", more=True))
    serving = await started(app, asgi)

    await asyncio.get_running_loop().advance(5.1)
    await serving

    assert (asgi.status, app.admission.in_flight) == (408, 0)


async def test_a_caller_that_leaves_in_its_body_is_answered_nothing():
    app, asgi = App(FakeRoad()), Asgi(piece(b"{", more=True))
    asgi.leave()

    await app(asgi)

    assert (asgi.sent, app.road.begun, app.admission.in_flight) == ([], [], 0)


async def test_a_caller_that_leaves_cancels_its_exchange_and_says_why():
    app, asgi = App(FakeRoad(wait_for_ever)), Asgi(piece(b"{}"))
    serving = await started(app, asgi)

    asgi.leave()
    await asyncio.wait_for(serving, 30)

    assert app.road.begun[0].cancelled is CancelReason.CALLER_LEFT
    assert app.admission.in_flight == 0


async def test_a_caller_that_leaves_after_its_answer_does_not_disturb_the_record():
    settled = asyncio.Event()

    async def answer_and_settle(exchange, sink):
        await answer_ok(exchange, sink)
        await settled.wait()

    app, asgi = App(FakeRoad(answer_and_settle)), Asgi(piece(b"{}"))
    serving = await started(app, asgi)
    asgi.leave()
    await turn()
    still_held = app.admission.in_flight
    settled.set()
    await serving

    assert app.road.begun[0].cancelled is None
    assert (still_held, app.admission.in_flight) == (1, 0)


async def test_a_server_that_cannot_send_cancels_the_exchange():
    async def stream(exchange, sink):
        sink.start(200, ())
        await asyncio.Event().wait()

    async def broken(message):
        raise ConnectionResetError

    app, asgi = App(FakeRoad(stream)), Asgi(piece(b"{}"))
    asgi.send = broken

    with pytest.raises(ConnectionResetError):
        await app(asgi)

    assert app.road.begun[0].cancelled is CancelReason.CALLER_LEFT
    assert app.admission.in_flight == 0


async def test_a_server_that_gives_up_leaves_the_exchange_to_the_house():
    app, asgi = App(FakeRoad(wait_for_ever)), Asgi(piece(b"{}"))
    serving = await started(app, asgi)
    assert app.road.begun

    serving.cancel()
    await asyncio.wait([serving])

    (exchange,) = app.road.begun
    assert exchange.cancelled is None
    exchange.cancel(CancelReason.STOPPING)
    await turn()


async def test_other_routes_go_to_the_control_plane_with_their_caller():
    seen = []

    async def control(scope, receive, send):
        seen.append(scope["state"])

    app = App(FakeRoad(), control)
    await app(Asgi(method="GET", path="/v1/models"))

    assert seen[0]["caller"] is LOCAL
    assert seen[0]["request_id"].startswith("req_")


async def test_explain_holds_a_slot_while_it_is_answered():
    held = []

    async def control(scope, receive, send):
        held.append(app.admission.in_flight)

    app = App(FakeRoad(), control)
    await app(Asgi(path="/tandem/explain"))

    assert (held, app.admission.in_flight) == ([1], 0)


async def test_what_is_not_http_is_ignored():
    asgi = Asgi()
    asgi.scope["type"] = "websocket"

    await App(FakeRoad())(asgi)

    assert asgi.sent == []


async def test_a_slow_reader_pauses_the_upstream_until_it_has_caught_up():
    sink, flow, asgi = AsgiSink(), Flow(), Asgi()
    sink.feed_from(flow)
    sink.start(200, ())

    sink.write(b"x" * 100_000)
    below = list(flow.calls)
    sink.write(b"x" * 100_000)
    above = list(flow.calls)
    sink.end()
    await sink.pump(asgi.send)

    assert (below, above, flow.calls) == ([], ["pause"], ["pause", "resume"])


async def test_an_answer_that_fails_is_left_without_an_end_after_what_was_written_and_told():
    sink, asgi = AsgiSink(), Asgi()
    sink.start(200, ())
    sink.tell(Waiting("spark", 1, 2, 4.0))
    sink.write(b"x")
    sink.fail(UpstreamCut("spark", "cut"))

    await sink.pump(asgi.send)

    told = b": waiting for spark, position 1 of 2, about 4 s\n\n"
    assert [(message.get("body"), message.get("more_body")) for message in asgi.sent] == [
        (None, None),
        (told, True),
        (b"x", True),
    ]


class Control:
    """A control plane that notes its calls, and how often it was built."""

    def __init__(self, probes=NO_PROBES) -> None:
        self.built, self.paths, self.failures = 0, [], []
        self.may_build = threading.Event()
        self.may_build.set()
        self.app = AsgiApp(Admission(FakeRoad()), self.build, probes)

    def build(self):
        assert self.may_build.wait(10)
        if self.failures:
            raise self.failures.pop()
        self.built += 1
        return self

    async def __call__(self, scope, receive, send) -> None:
        self.paths.append(scope["path"])

    async def ask(self, path: str, method: str = "GET") -> Asgi:
        asgi = Asgi(method=method, path=path)
        await self.app(asgi.scope, asgi.receive, asgi.send)
        return asgi


@pytest.mark.parametrize("ahead", [True, False])
async def test_the_control_plane_is_built_once_with_its_first_request_or_ahead_of_it(ahead):
    control = Control()
    if ahead:
        await control.app.load()
    assert control.built == ahead

    await control.ask("/a")
    await control.ask("/b")

    assert (control.built, control.paths) == (1, ["/a", "/b"])


async def test_requests_that_come_at_once_share_one_building_and_the_loop_goes_on_meanwhile():
    control = Control()
    control.may_build.clear()

    async def let_it_build() -> None:
        control.may_build.set()  # only a loop that goes on gets here

    await asyncio.gather(control.ask("/a"), control.ask("/b"), let_it_build())

    assert (control.built, sorted(control.paths)) == (1, ["/a", "/b"])


async def test_a_control_plane_that_cannot_be_built_is_logged_answered_and_tried_again(monkeypatch):
    control, logged = Control(), []
    monkeypatch.setattr(events, "fault_caught", lambda **fields: logged.append(fields))

    control.failures.append(ImportError("broken"))
    assert (await control.ask("/a")).status == 500
    control.failures.append(ImportError("still broken"))
    await control.app.load()  # ahead of a request, nobody is answered
    await control.ask("/b")

    assert [fields["kind"] for fields in logged] == ["ImportError", "ImportError"]
    assert [bool(fields["request_id"]) for fields in logged] == [True, False]
    assert control.paths == ["/b"]


async def test_a_probe_is_answered_with_its_id_and_builds_no_control_plane():
    ready = [True, False]
    control = Control(Health(lambda: ready.pop(0)).as_apps())

    answers = [await control.ask(path) for path in ("/healthz", "/readyz", "/readyz", "/api/hello")]
    greeted = await control.ask("/api/hello", "HEAD")

    assert [answer.status for answer in (*answers, greeted)] == [200, 200, 503, 200, 200]
    assert [json.loads(answer.body)["status"] for answer in answers[:3]] == ["ok", "ready", "stopping"]
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}
    assert all(answer.headers["x-request-id"] == answer.headers["x-tandem-request-id"] for answer in answers)
    assert control.built == 0


async def test_another_method_on_the_path_of_a_probe_is_for_the_control_plane():
    control = Control(Health(lambda: True).as_apps())

    await control.ask("/healthz", "POST")

    assert control.paths == ["/healthz"]


async def test_a_probe_that_breaks_is_logged_and_answered(monkeypatch):
    logged = []
    monkeypatch.setattr(events, "fault_caught", lambda **fields: logged.append(fields))

    answer = await Control(Health(lambda: 1 / 0).as_apps()).ask("/readyz")

    assert (answer.status, [fields["kind"] for fields in logged]) == (500, ["ZeroDivisionError"])
