"""One request over a session's socket, with the socket in the test's hand: when HTTP takes over, and who lets go of what."""

import asyncio
import json
from collections import deque

import pytest
from msgspec.structs import replace

from router.contract.errors import BadRequest, UpstreamCut, UpstreamTimeout
from router.loop.off_loop import OffLoop
from router.upstream.connection import CannotConnect
from router.upstream.websocket.call import PreparedSocketCall
from tests.router.upstream.fakes import TIMEOUTS, make_request
from tests.tools.exchanges import RecordingSink

pytestmark = pytest.mark.jumping_clock

BODY = json.dumps({"model": "m", "input": [{"role": "user", "content": "hi"}], "stream": True}).encode()
DONE = {"type": "response.completed", "response": {"id": "resp_1", "output": []}}


class FakeSocket:
    """Keeps what is sent on it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.owner, self.baseline, self.past_ids = None, None, deque()
        self.sent: list[dict] = []
        self.is_usable, self.is_reading = True, True
        self.was_asked = asyncio.Event()

    def send(self, owner, text) -> None:
        self.owner = owner
        self.sent.append(json.loads(text))
        self.was_asked.set()

    def close(self) -> None:
        self.is_usable, self.owner = False, None

    def take_answer_headers(self):
        return ()

    def pause(self) -> None:
        self.is_reading = False

    def resume(self) -> None:
        self.is_reading = True

    def says(self, message: dict) -> None:
        self.owner.received(json.dumps(message).encode())


class FakePool:
    """Hands out what the test put there, and knows which keys are claimed."""

    def __init__(self, *fresh, warm=None) -> None:
        self.fresh, self.warm = list(fresh), warm
        self.claimed: set[str] = set()
        self.given_back: list[FakeSocket] = []
        self.left_alone: list[str] = []
        self.lost: list[str] = []
        self.most_bytes = 1 << 30
        self.off_loop = OffLoop()
        self.may_connect = asyncio.Event()
        self.may_connect.set()

    def key_of(self, request, headers, session):
        return session

    def claim(self, key) -> bool:
        if key in self.claimed:
            return False
        self.claimed.add(key)
        return True

    def take(self, key):
        warm, self.warm = self.warm, None
        return warm

    async def connect(self, key, headers, within_seconds):
        await self.may_connect.wait()
        found = self.fresh.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def give_back(self, key, socket) -> None:
        self.claimed.discard(key)
        self.given_back.append(socket)

    def release(self, key) -> None:
        self.claimed.discard(key)

    def leave_alone(self, key, reason) -> None:
        self.left_alone.append(reason)

    def note_lost(self, key, reason) -> None:
        self.lost.append(reason)

    def note_too_large(self, key, size) -> None:
        self.most_bytes = size

    def takes(self, key, size) -> bool:
        return size < self.most_bytes


class FakeHttp:
    """The way over HTTP, which keeps what it is given."""

    def __init__(self) -> None:
        self.opened: list[tuple] = []
        self.is_cancelled = self.is_paused = False

    def open(self, body, sink, headers=(), session=""):
        self.opened.append((body, sink, headers))
        return self

    def cancel(self) -> None:
        self.is_cancelled = True

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False


def start(pool: FakePool, body: bytes = BODY, session: str | None = "s-1"):
    http, sink = FakeHttp(), RecordingSink()
    call = PreparedSocketCall(pool, make_request(), http).open(body, sink, (("a", "b"),), session)
    return call, sink, http


@pytest.fixture
async def socket():
    return FakeSocket()


async def test_an_answer_is_passed_on_as_events_and_its_socket_is_given_back(socket):
    pool = FakePool(warm=socket)
    _, sink, _ = start(pool)

    socket.says({"type": "response.created", "response": {"id": "resp_1"}})
    socket.says(DONE)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert sink.body.startswith(b"event: response.created\ndata: {")
    assert pool.given_back == [socket]
    assert pool.claimed == set()
    assert socket.baseline.response_id == "resp_1"


async def test_a_request_without_a_session_and_one_whose_session_is_busy_go_over_http():
    pool = FakePool()
    pool.claimed.add("s-1")

    for session in (None, "s-1"):
        _, sink, http = start(pool, session=session)
        assert http.opened == [(BODY, sink, (("a", "b"),))]


async def test_without_a_socket_the_same_request_goes_over_http():
    pool = FakePool(CannotConnect("no WebSocket (426)"))
    call, sink, http = start(pool)
    call.pause()
    await asyncio.sleep(0.1)

    assert http.opened == [(BODY, sink, (("a", "b"),))]
    assert http.is_paused
    assert pool.claimed == set()
    call.cancel()
    assert http.is_cancelled


@pytest.mark.parametrize(("is_warm", "reasons"), [(False, ["closed without an answer"]), (True, [])])
async def test_a_socket_that_dies_at_once_is_replaced_by_http_and_only_a_fresh_one_is_held_against_its_target(
    socket, is_warm, reasons
):
    pool = FakePool(warm=socket) if is_warm else FakePool(socket)
    _, _, http = start(pool)
    await asyncio.sleep(0.1)

    socket.owner.lost()

    assert len(http.opened) == 1
    assert pool.lost == reasons
    assert pool.left_alone == []
    assert pool.claimed == set()


async def test_a_header_that_would_be_two_is_refused_before_a_socket_is_opened():
    pool = FakePool()

    with pytest.raises(BadRequest, match="not a valid header name"):
        PreparedSocketCall(pool, make_request(), FakeHttp()).open(BODY, RecordingSink(), (("x-a: 1\r\nx-b", "2"),), "s")

    assert pool.claimed == set()


async def test_a_message_that_is_too_large_for_a_target_goes_over_http_and_so_does_the_next_of_its_size(socket):
    pool = FakePool(socket, FakeSocket())
    _, _, http = start(pool)
    await asyncio.sleep(0.1)

    socket.owner.lost(1009)
    _, _, next_http = start(pool)
    await asyncio.sleep(0.1)

    assert len(http.opened) == len(next_http.opened) == 1
    assert pool.lost == pool.left_alone == []
    assert len(pool.given_back) == 1


@pytest.mark.parametrize("kind", ["response.completed", "response.created", "response.output_text.delta"])
async def test_what_is_left_of_an_older_answer_is_never_taken_for_this_one(socket, kind):
    socket.past_ids.append("resp_0")
    _, sink, http = start(FakePool(warm=socket))
    socket.says({"type": kind, "response": {"id": "resp_0", "output": []}})

    assert len(http.opened) == 1
    assert sink.words == ["feed_from"]
    assert not socket.is_usable


async def test_two_answers_that_are_mixed_are_a_cut(socket):
    _, sink, _ = start(FakePool(warm=socket))
    socket.says({"type": "response.created", "response": {"id": "resp_1"}})
    socket.says({"type": "response.completed", "response": {"id": "resp_2", "output": []}})

    assert isinstance(sink.error, UpstreamCut)
    assert b"resp_2" not in sink.body


async def test_an_end_that_cannot_be_read_is_a_cut_and_does_not_reach_the_caller(socket):
    _, sink, _ = start(FakePool(warm=socket))
    socket.says({"type": "response.created", "response": {"id": "resp_1"}})
    socket.owner.received(b'{"type":"response.completed", broken')

    assert isinstance(sink.error, UpstreamCut)
    assert b"broken" not in sink.body


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(("begins", "seconds"), [(False, TIMEOUTS.first_byte_seconds), (True, 30)])
async def test_news_do_not_make_a_target_less_late(socket, begins, seconds, is_streaming):
    body = json.dumps({**json.loads(BODY), "stream": is_streaming}).encode()
    _, sink, _ = start(FakePool(warm=socket), body)
    if begins:
        socket.says({"type": "response.created"})
    for _ in range(int(seconds * 2) + 4):
        if socket.owner is not None:
            socket.says({"type": "codex.rate_limits"})
        await asyncio.sleep(0.5)

    assert isinstance(sink.error, UpstreamTimeout)


async def test_of_any_number_of_news_only_some_are_kept(socket):
    _, sink, _ = start(FakePool(warm=socket))
    for _ in range(1_000):
        socket.says({"type": "codex.rate_limits", "pad": "x" * 1_000})
    socket.says(DONE)

    assert 60_000 < len(sink.body) < 70_000
    assert b"response.completed" in sink.body


@pytest.mark.parametrize("items", [1, 100])
async def test_an_answer_that_is_too_large_is_not_gone_on_from(socket, items):
    start(FakePool(warm=socket))
    socket.says({"type": "response.created", "response": {"id": "resp_1"}})
    for _ in range(items):
        socket.says({"type": "response.output_item.done", "item": {"type": "message", "text": "x" * (600_000 // items)}})
    socket.says(DONE)

    assert socket.baseline is None


async def test_news_before_the_response_begins_wait_for_it_and_leave_the_way_to_http_open(socket):
    _, sink, http = start(FakePool(warm=socket))
    socket.says({"type": "codex.rate_limits"})
    assert sink.words == ["feed_from"]

    socket.says({"type": "response.created"})
    assert [line for line in sink.body.split(b"\n") if line.startswith(b"event")] == [
        b"event: codex.rate_limits",
        b"event: response.created",
    ]
    socket.owner.lost()

    assert isinstance(sink.error, UpstreamCut)
    assert http.opened == []


async def test_a_call_that_was_cancelled_while_it_dialled_keeps_the_socket_for_the_next(socket):
    pool = FakePool(socket)
    pool.may_connect.clear()
    call, sink, http = start(pool)
    await asyncio.sleep(0)
    call.cancel()
    pool.may_connect.set()
    await asyncio.sleep(0.1)

    assert pool.given_back == [socket]
    assert socket.sent == []
    assert (sink.words, http.opened) == (["feed_from"], [])


async def test_a_call_that_is_cancelled_closes_its_socket(socket):
    pool = FakePool(warm=socket)
    call, sink, _ = start(pool)
    socket.says({"type": "response.created"})
    call.cancel()

    assert not socket.is_usable
    assert pool.claimed == set()
    assert sink.error is None


async def test_a_second_socket_that_is_called_too_old_goes_over_http(socket):
    error = {"type": "error", "status": 400, "error": {"code": "websocket_connection_limit_reached"}}
    again = FakeSocket()
    _, sink, http = start(pool := FakePool(again, warm=socket))
    socket.says(error)
    await asyncio.sleep(0.1)
    assert len(again.sent) == 1
    again.says(error)

    assert len(http.opened) == len(pool.left_alone) == 1
    assert sink.status is None
    assert not again.is_usable


async def test_a_lost_response_that_the_caller_itself_named_is_the_callers_to_read(socket):
    body = json.dumps({**json.loads(BODY), "previous_response_id": "resp_0"}).encode()
    _, sink, _ = start(FakePool(warm=socket), body)
    socket.says({"type": "error", "status": 400, "error": {"code": "previous_response_not_found"}})

    assert len(socket.sent) == 1
    assert socket.sent[0]["previous_response_id"] == "resp_0"
    assert sink.status == 400


@pytest.mark.parametrize(("status", "stays"), [(400, True), (429, True), (500, False), (503, False)])
async def test_a_refusal_leaves_the_socket_open_unless_the_target_is_at_fault(socket, status, stays):
    pool = FakePool(warm=socket)
    _, sink, _ = start(pool)
    socket.says({"type": "error", "status": status, "error": {"code": "x"}})

    assert sink.status == status
    assert (pool.given_back == [socket]) is stays
    assert socket.is_usable is stays


@pytest.mark.parametrize(("events", "seconds"), [([], TIMEOUTS.first_byte_seconds), ([{"type": "response.created"}], 30)])
async def test_a_target_that_says_nothing_is_given_up_after_its_time(socket, events, seconds):
    _, sink, http = start(FakePool(warm=socket))
    began = asyncio.get_running_loop().time()
    for event in events:
        socket.says(event)
    await sink.finished(1_000)

    assert isinstance(sink.error, UpstreamTimeout)
    assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.1)
    assert not socket.is_usable
    assert http.opened == []


async def test_a_paused_call_is_not_silent(socket):
    call, sink, _ = start(FakePool(warm=socket))
    socket.says({"type": "response.created"})
    call.pause()
    await asyncio.sleep(100)

    assert not sink.over.is_set()
    assert not socket.is_reading
    call.resume()
    assert socket.is_reading
    call.cancel()


async def test_what_must_not_go_over_a_socket_goes_over_http_and_the_socket_stays(socket):
    pool = FakePool(warm=socket)
    body = json.dumps({**json.loads(BODY), "background": True}).encode()
    _, _, http = start(pool, body)

    assert len(http.opened) == 1
    assert pool.given_back == [socket]


async def test_a_heavy_body_is_read_off_the_loop(socket):
    body = json.dumps({"model": "m", "input": [{"role": "user", "content": "x" * 600_000}], "stream": True}).encode()
    _, sink, _ = start(FakePool(warm=socket), body)
    assert socket.sent == []
    await asyncio.wait_for(socket.was_asked.wait(), 10)
    socket.says(DONE)

    assert sink.words[-1] == "end"


def test_a_call_prints_nothing_of_what_it_holds():
    request = replace(make_request(), headers=(("authorization", "Bearer canary"),))

    assert "canary" not in repr(PreparedSocketCall(None, request, None))
