"""One admission for every way in: the same request is refused the same way on both, and by the same words."""

import asyncio
import json
import re
from types import SimpleNamespace

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import (
    BadRequest,
    BodyTooLarge,
    Forbidden,
    HeadersTooLarge,
    RateLimited,
    Unavailable,
    UpgradeRequired,
    WrongMediaType,
    WrongMethod,
)
from router.contract.exchange import Arrival, CancelReason
from router.contract.words import Dialect, Operation
from router.edge.admission import Admission, Slot
from router.edge.http.head import RequestHead, parse_head
from tests.tools.edge import FakeRoad, running_edge, wait_for_ever
from tests.tools.http import Reply, chat, request_bytes
from tests.tools.raw import Caller

BODY = json.dumps(chat()).encode()
GOOD = request_bytes("/v1/messages", BODY)


def without(raw: bytes, name: bytes) -> bytes:
    return re.sub(name + rb": [^\r]*\r\n", b"", raw)


BAD = {
    "many headers": request_bytes("/v1/messages", BODY, {f"x-{n}": "y" for n in range(30)}),
    "large headers": request_bytes("/v1/messages", BODY, {"x-a": "y" * 5_000}),
    "a large target": request_bytes("/v1/messages?" + "y" * 5_000, BODY),
    "no host": without(GOOD, b"host"),
    "two hosts": GOOD.replace(b"host: 127.0.0.1", b"host: 127.0.0.1\r\nhost: localhost"),
    "another host": GOOD.replace(b"127.0.0.1", b"evil.example"),
    "a host that is none": GOOD.replace(b"127.0.0.1", b"a/b"),
    "another origin": request_bytes("/v1/messages", BODY, {"origin": "http://evil.example"}),
    "another site": request_bytes("/v1/messages", BODY, {"sec-fetch-site": "cross-site"}),
    "text": request_bytes("/v1/messages", BODY, {"content-type": "text/plain"}),
    "another charset": request_bytes("/v1/messages", BODY, {"content-type": "application/json; charset=utf-16"}),
    "compressed": request_bytes("/v1/messages", BODY, {"content-encoding": "br"}),
    "too large": request_bytes("/v1/messages", b"{}", {"content-length": "100001"}),
    "two lengths": GOOD.replace(b"content-length", b"content-length: 7\r\ncontent-length"),
    "a length with a sign": GOOD.replace(b"content-length: ", b"content-length: +"),
    "a folded header": GOOD.replace(b"host: 127.0.0.1", b"host: 127.0.0.1\r\nx-a: b\r\n c"),
    "bare line feeds": GOOD.replace(b"\r\n", b"\n"),
    "wrong origin and wrong type": request_bytes("/v1/messages", BODY, {"origin": "null", "content-type": "text/plain"}),
    "wrong type and too large": request_bytes("/v1/messages", b"", {"content-type": "a/b", "content-length": "999999"}),
}


@pytest.fixture
async def edge():
    road = FakeRoad()
    async with running_edge(road) as (port, admission):
        yield port, admission, road
    assert admission.in_flight == 0


async def ask(port: int, raw: bytes, *, by_shim: bool) -> Reply:
    async with Caller(port, by_shim=by_shim) as caller:
        await caller.send(raw)
        return await caller.reply()


def shown(reply: Reply) -> tuple[int, dict, str]:
    """A refusal without its id and time."""
    reply.headers.pop("date")
    request_id = reply.headers.pop("x-tandem-request-id")
    assert reply.headers.pop("x-request-id") == reply.headers.pop("request-id") == request_id
    assert reply.json["request_id"] == request_id
    return reply.status, reply.headers, reply.body.decode().replace(request_id, "ID")


@pytest.mark.parametrize("kind", list(BAD))
async def test_a_bad_request_is_refused_the_same_way_on_both_ways_in(edge, kind):
    port, _, road = edge

    direct = await ask(port, BAD[kind], by_shim=False)
    handed_over = await ask(port, BAD[kind], by_shim=True)

    assert direct.status >= 400
    assert shown(direct) == shown(handed_over)
    assert road.begun == []


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
async def test_a_full_house_is_a_503_on_every_route_with_a_body(edge, by_shim):
    port, _, road = edge
    road.use(max_in_flight=0)

    create = await ask(port, GOOD, by_shim=by_shim)
    explain = await ask(port, request_bytes("/tandem/explain", BODY), by_shim=by_shim)
    health = await ask(port, request_bytes("/healthz"), by_shim=by_shim)

    assert (create.status, explain.status, health.status) == (503, 503, 200)
    assert create.headers["retry-after"] == explain.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-encoding": "br"}, 415),
        ({"content-encoding": "gzip"}, 400),
        ({"content-length": "100001"}, 413),
        ({"origin": "http://evil.example"}, 403),
    ],
)
async def test_explain_is_guarded_as_a_create_call_is(edge, change, status):
    port, _, road = edge

    reply = await ask(port, request_bytes("/tandem/explain", BODY, change), by_shim=False)

    assert reply.status == status
    assert road.explained == []


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/responses/resp_1", "/tandem/decisions/req_1", "/v1/nowhere"])
async def test_every_control_route_is_guarded(edge, path):
    port, _, _ = edge

    elsewhere = await ask(port, request_bytes(path, headers={"origin": "http://evil.example"}), by_shim=False)
    large = await ask(port, request_bytes(path, headers={"x-a": "y" * 5_000}), by_shim=False)

    assert (elsewhere.status, large.status) == (403, 431)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (request_bytes("/v1/messages", method="GET"), 405),
        (request_bytes("/v1/messages", b"{}", method="PUT"), 405),
        (request_bytes("/v1/responses", method="GET", headers={"upgrade": "websocket", "connection": "Upgrade"}), 400),
        (request_bytes("/v1/messages", method="GET", headers={"upgrade": "websocket", "connection": "Upgrade"}), 405),
    ],
)
async def test_a_create_route_takes_posts_alone(edge, raw, status):
    port, _, _ = edge

    assert (await ask(port, raw, by_shim=False)).status == status


def head(raw: bytes = GOOD) -> RequestHead:
    return parse_head(raw[: raw.index(b"\r\n\r\n") + 4])


def test_an_admitted_create_call_holds_a_slot_until_it_is_released():
    admission = Admission(FakeRoad(max_in_flight=1))

    caller = admission.admit(head())

    assert (caller, admission.in_flight) == (LOCAL, 1)
    with pytest.raises(Unavailable):
        admission.admit(head())
    admission.release(LOCAL)
    admission.admit(head())


def test_an_admitted_socket_is_open_until_it_is_released_and_takes_no_slot():
    road = FakeRoad(max_in_flight=0, max_sockets=1)
    admission, handshake = Admission(road), request_bytes("/v1/responses", method="GET", headers={"upgrade": "websocket"})

    caller = admission.admit(head(handshake), Slot.SOCKET)

    assert (caller, admission.sockets, admission.in_flight) == (LOCAL, 1, 0)
    assert road.plan.dispatcher.connected_ahead == 1
    with pytest.raises(UpgradeRequired):
        admission.admit(head(handshake), Slot.SOCKET)
    admission.release_socket(LOCAL)
    admission.admit(head(handshake), Slot.SOCKET)


@pytest.mark.parametrize("takes", [Slot.REQUEST, Slot.SOCKET, None])
@pytest.mark.parametrize(
    ("headers", "error"), [({"origin": "http://evil.example"}, Forbidden), ({"x-a": "y" * 5_000}, HeadersTooLarge)]
)
def test_origin_and_headers_are_checked_whatever_a_request_takes(takes, headers, error):
    admission = Admission(FakeRoad())

    with pytest.raises(error):
        admission.admit(head(request_bytes("/v1/responses", b"{}", headers)), takes)

    assert (admission.in_flight, admission.sockets) == (0, 0)


def test_who_sends_a_request_is_known_by_the_keys_of_the_plan_that_admits_it():
    road, asked = FakeRoad(), head(request_bytes("/v1/messages", BODY, {"x-api-key": "k"}))
    admission = Admission(road)
    before = admission.admit(asked)

    road.plan.takes_callers_keys = True

    assert before is LOCAL
    assert admission.admit(asked) == admission.identify(asked, {"x-api-key": "k"}) != LOCAL


def test_a_caller_that_may_send_no_more_is_refused_before_it_takes_a_slot_and_on_create_calls_alone():
    road, asked = FakeRoad(), []

    def check(caller):
        asked.append(caller)
        raise RateLimited("too many", retry_after_seconds=9)

    road.plan.takes_callers_keys, road.plan.caller_limits = True, SimpleNamespace(has_rates=True, check=check)
    admission = Admission(road)

    with pytest.raises(RateLimited):
        admission.admit(parse_head(GOOD))
    for path, takes in (("/tandem/explain", Slot.REQUEST), ("/v1/models", None), ("/v1/responses", Slot.SOCKET)):
        admission.admit(parse_head(request_bytes(path, BODY)), takes)

    assert asked == [LOCAL]
    assert (admission.in_flight, admission.sockets) == (1, 1)


@pytest.mark.parametrize(("raw", "error"), [
    (request_bytes("/v1/messages", b"", {f"x-{n}": "y" for n in range(30)}, "GET"), HeadersTooLarge),
    (request_bytes("/v1/messages", b"", {"origin": "null", "content-type": "a/b"}, "GET"), Forbidden),
    (request_bytes("/v1/messages", b"", {"content-type": "a/b"}, "GET"), WrongMethod),
    (request_bytes("/v1/messages", b"", {"content-type": "a/b"}), WrongMediaType),
    (request_bytes("/v1/messages", b"{}"), Unavailable),
], ids=["headers", "origin", "method", "body headers", "slot"])  # fmt: skip
def test_the_first_thing_that_is_wrong_is_named(raw, error):
    """Each request here has everything wrong that the ones below it have."""
    admission = Admission(FakeRoad(max_in_flight=0))

    with pytest.raises(error):
        admission.admit(head(raw))


def test_headers_may_be_as_many_and_as_large_as_the_limits_say_and_no_more():
    asked, road = head(), FakeRoad()
    admission = Admission(road)

    for limits in ({"max_headers": asked.count}, {"max_header_bytes": asked.size}):
        road.use(**limits)
        admission.admit(head())
        road.use(**{name: limit - 1 for name, limit in limits.items()})
        with pytest.raises(HeadersTooLarge):
            admission.admit(head())
        road.use(max_headers=20, max_header_bytes=4_096)


def test_a_body_may_be_as_large_as_the_limit_says_and_no_more():
    admission = Admission(FakeRoad(max_body_bytes=10))

    admission.admit(head(request_bytes("/v1/messages", b"x" * 10)))
    with pytest.raises(BodyTooLarge):
        admission.admit(head(request_bytes("/v1/messages", b"x" * 11)))


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"max_headers": 1}, HeadersTooLarge),
        ({"max_header_bytes": 10}, HeadersTooLarge),
        ({"max_body_bytes": 10}, BodyTooLarge),
        ({"max_in_flight": 0}, Unavailable),
    ],
)
def test_the_limits_count_for_a_head_that_was_checked_before(limits, error):
    road, asked = FakeRoad(), head()
    admission = Admission(road)
    admission.admit(asked)
    admission.release(LOCAL)
    road.use(**limits)

    assert asked.is_checked
    with pytest.raises(error):
        admission.admit(asked)


def test_a_head_that_is_refused_was_not_checked():
    asked = head(without(GOOD, b"host"))

    with pytest.raises(BadRequest):
        Admission(FakeRoad()).admit(asked)

    assert not asked.is_checked


class Sink:
    has_started = False

    def start(self, status, headers) -> None:
        self.status = status

    def write(self, data) -> None:
        self.body = data

    def end(self) -> None:
        pass


def arrival() -> Arrival:
    return Arrival("req_1", Dialect.MESSAGES, Operation.CREATE, {}, b"{}")


async def test_alone_a_request_is_served_before_start_returns():
    admission, sink = Admission(FakeRoad()), Sink()
    admission.admit(head())

    exchange, task = admission.start(arrival(), sink)

    assert (sink.status, task, exchange.id) == (200, None, "req_1")


async def test_among_others_a_request_waits_for_its_turn():
    admission, sink = Admission(FakeRoad()), Sink()
    admission.admit(head())
    admission.admit(head())

    _, task = admission.start(arrival(), sink)

    assert not hasattr(sink, "status")
    await task
    assert sink.status == 200


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "among others"])
async def test_cancelling_the_exchange_cancels_the_task_that_serves_it(others):
    admission = Admission(FakeRoad(wait_for_ever))
    for _ in range(1 + others):
        admission.admit(head())

    exchange, task = admission.start(arrival(), Sink())
    await asyncio.sleep(0)
    exchange.cancel(CancelReason.CALLER_LEFT)
    await asyncio.wait([task], timeout=1)

    assert task.cancelled()


async def test_a_defect_is_answered_in_the_callers_dialect_without_details():
    async def broken(exchange, sink):
        raise KeyError("a secret")

    admission, sink = Admission(FakeRoad(broken)), Sink()
    admission.admit(head())

    admission.start(arrival(), sink)

    told = json.loads(sink.body)
    assert (sink.status, told["type"], told["error"]["code"]) == (500, "error", "internal_error")
    assert b"secret" not in sink.body


async def test_it_is_known_whether_the_newest_request_came_alone():
    admission, several = Admission(FakeRoad()), []

    for in_flight in (1, 2, 1):
        admission.in_flight = in_flight
        admission.start(arrival(), Sink())
        several.append(admission.speedups.gathering.has_several)

    assert several == [False, True, False]
