"""One caller's connection for create calls, with a fake transport and a clock that a test moves."""

import asyncio
import json

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import UpstreamCut
from router.contract.exchange import CancelReason
from router.contract.words import Dialect, Operation
from router.edge.admission import Admission
from router.edge.http.create_connection import CreateConnection
from router.edge.listener import Place
from router.loop.together import Outbox
from tests.tools.edge import ANSWER, FakeRoad, FakeTransport, Flow, answer_ok, wait_for_ever
from tests.tools.http import chat, request_bytes

CREATE = request_bytes("/v1/chat/completions", chat())
HEAD_END = CREATE.index(b"\r\n\r\n") + 4


class Successor(asyncio.Protocol):
    """Takes what is handed over."""

    def __init__(self, place: Place, seconds: float) -> None:
        self.place, self.seconds, self.received = place, seconds, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data


class Call:
    """A connection with all that is around it."""

    def __init__(self, road: FakeRoad) -> None:
        self.road, self.admission, self.transport = road, Admission(road), FakeTransport()
        self.connections: set = set()
        self.loop = asyncio.get_running_loop()
        place = Place({}, "an address")
        self.connection = CreateConnection(self.admission, self.connections, place, Successor, Outbox())
        self.connection.connection_made(self.transport)

    async def send(self, *pieces: bytes) -> bytes:
        """Send bytes and let the loop turn; answers what was written since."""
        before = len(self.transport.written)
        for piece in pieces:
            self.connection.data_received(piece)
        await self.turn()
        return self.transport.written[before:]

    async def turn(self) -> None:
        await self.loop.advance(0)

    def lose(self) -> None:
        self.connection.connection_lost(None)

    async def closes_between(self, still_open: float, seconds: float) -> bool:
        """Whether the connection is open after this time, and closed after that much more."""
        await self.loop.advance(still_open)
        is_open = not self.transport.is_closing()
        await self.loop.advance(seconds)
        return is_open and self.transport.is_closed

    @property
    def refusal(self) -> dict:
        return json.loads(self.transport.written.rpartition(b"\r\n\r\n")[2])


def answer_after(call: Call) -> asyncio.Event:
    """Let every answer of the road wait for this event."""
    gate = asyncio.Event()

    async def slow(exchange, sink):
        await gate.wait()
        await answer_ok(exchange, sink)

    call.road.script = slow
    return gate


def settle_after(call: Call) -> asyncio.Event:
    """Let the road answer at once, and its records wait for this event."""
    settled = asyncio.Event()

    async def answer_and_settle(exchange, sink):
        await answer_ok(exchange, sink)
        await settled.wait()

    call.road.script = answer_and_settle
    return settled


@pytest.fixture
async def call():
    made = Call(FakeRoad())
    yield made
    made.lose()
    await made.turn()
    assert made.admission.in_flight == 0
    assert made.connections == set()


async def test_a_request_that_never_waits_is_answered_within_the_call_that_brought_it(call):
    call.connection.data_received(CREATE)

    assert call.transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert call.transport.written.endswith(ANSWER)


async def test_the_road_is_given_all_that_admission_found(call):
    await call.send(request_bytes("/v1/messages/count_tokens", b"{}", {"X-Mixed": "y"}))

    (exchange,) = call.road.begun
    arrival = exchange.arrival
    assert (arrival.dialect, arrival.operation, arrival.raw) == (Dialect.MESSAGES, Operation.COUNT_TOKENS, b"{}")
    assert (arrival.headers["x-mixed"], arrival.caller) == ("y", LOCAL)
    assert arrival.id.startswith("req_")


@pytest.mark.parametrize("cut", range(0, len(CREATE), 7))
async def test_a_request_in_two_pieces_is_answered_once(call, cut):
    answer = await call.send(CREATE[:cut], CREATE[cut:])

    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert len(call.road.begun) == 1


async def test_pipelined_requests_are_answered_one_after_the_other(call):
    answer = await call.send(CREATE * 3)
    await call.turn()

    assert (answer + call.transport.written).count(b"HTTP/1.1 200 OK") >= 3
    assert len({exchange.id for exchange in call.road.begun}) == 3


async def test_a_second_request_waits_for_the_first(call):
    gate = answer_after(call)
    early = await call.send(CREATE, CREATE)
    begun = len(call.road.begun)
    gate.set()
    await call.loop.advance(0)
    await call.loop.advance(0)

    assert (early, begun, len(call.road.begun)) == (b"", 1, 2)


async def test_a_caller_that_leaves_cancels_its_exchange_and_says_why(call):
    call.road.script = wait_for_ever
    await call.send(CREATE)
    (exchange,) = call.road.begun

    call.lose()
    await call.turn()

    assert exchange.cancelled is CancelReason.CALLER_LEFT
    assert call.admission.in_flight == 0


async def test_a_caller_that_leaves_after_its_answer_does_not_disturb_the_record(call):
    settled = settle_after(call)
    await call.send(CREATE)
    (exchange,) = call.road.begun

    call.lose()
    await call.turn()
    still_held = call.admission.in_flight
    settled.set()
    await call.turn()

    assert exchange.cancelled is None
    assert (still_held, call.admission.in_flight) == (1, 0)


async def test_a_caller_that_leaves_in_its_body_gives_its_slot_back(call):
    await call.send(CREATE[:-5])
    held = call.admission.in_flight

    call.lose()

    assert (held, call.admission.in_flight) == (1, 0)
    assert call.road.begun == []


async def test_a_defect_after_the_first_byte_cuts_the_answer(call):
    async def broken(exchange, sink):
        sink.start(200, (("content-type", "text/event-stream"),))
        sink.write(b"data: x\n\n")
        raise RuntimeError

    call.road.script = broken
    answer = await call.send(CREATE)

    assert not answer.endswith(b"0\r\n\r\n")
    assert call.transport.is_closed


async def test_a_road_that_cannot_even_begin_gives_its_slot_back(call):
    def broken(arrival):
        raise RuntimeError

    call.road.begin = broken
    with pytest.raises(RuntimeError):
        call.connection.data_received(CREATE)

    call.lose()

    assert call.admission.in_flight == 0


async def test_a_silent_connection_is_closed_at_the_header_limit(call):
    assert await call.closes_between(9.9, 0.2)
    assert call.transport.written == b""


async def test_a_head_that_trickles_is_a_408_whatever_comes(call):
    for start in range(5):
        await call.send(CREATE[start * 8 : start * 8 + 8])
        await call.loop.advance(2.1)

    assert call.transport.written.startswith(b"HTTP/1.1 408 ")
    assert call.refusal["error"]["code"] == "body_timeout"


async def test_a_body_that_trickles_is_a_408_and_frees_its_slot(call):
    await call.send(CREATE[: HEAD_END + 3])
    await call.loop.advance(5.1)

    assert call.transport.written.startswith(b"HTTP/1.1 408 ")
    assert call.admission.in_flight == 0


async def test_a_body_at_a_fair_pace_may_take_its_time(call):
    data = request_bytes("/v1/messages", b"{" + b" " * 300 + b"}")
    await call.send(data[:-250])
    for left in range(250, 0, -50):
        await call.loop.advance(4)
        await call.send(data[len(data) - left : len(data) - left + 50])

    assert call.transport.written.startswith(b"HTTP/1.1 200 ")


async def test_a_refusal_is_read_before_the_connection_closes(call):
    await call.send(request_bytes("/v1/messages", b"{}", {"content-type": "text/plain"}))

    refused = call.transport.written
    await call.send(CREATE)
    early = call.transport.is_closed
    await call.loop.advance(1.1)

    assert refused.startswith(b"HTTP/1.1 415 ")
    assert b"\r\nconnection: close\r\n" in refused
    assert call.transport.written == refused
    assert call.transport.has_eof
    assert (early, call.transport.is_closed) == (False, True)


async def test_a_refusal_that_is_not_read_is_cut(call):
    await call.send(request_bytes("/v1/messages", b"{}", {"content-type": "text/plain"}))
    call.connection.pause_writing()
    call.connection.resume_writing()
    call.transport.unread = 10

    await call.loop.advance(31)

    assert call.transport.is_aborted


async def test_the_keep_alive_runs_from_the_last_answer_on(call):
    for _ in range(3):
        await call.send(CREATE)
        await call.loop.advance(60)
    early = call.transport.is_closed
    await call.loop.advance(16)

    assert (early, call.transport.is_closed) == (False, True)


async def test_a_request_that_takes_longer_than_the_keep_alive_is_left_alone(call):
    gate = answer_after(call)
    await call.send(CREATE)
    for _ in range(5):
        await call.loop.advance(70)
    while_served = call.transport.is_closing()
    gate.set()
    await call.turn()

    assert not while_served
    assert await call.closes_between(74, 76)
    assert call.transport.written.endswith(ANSWER)


async def test_the_keep_alive_of_a_new_plan_counts_for_an_open_connection(call):
    await call.send(CREATE)
    await call.loop.advance(11)
    call.road.use(keep_alive_seconds=5.0)

    await call.loop.advance(65)

    assert call.transport.is_closed


def body_of(size: int) -> bytes:
    return b"{" + b" " * (size - 2) + b"}"


async def test_each_request_of_a_connection_has_its_own_length_and_body(call):
    sizes = (2, 300, 300, 7, 90_000)
    for size in sizes:
        await call.send(request_bytes("/v1/messages", body_of(size)))

    arrivals = [exchange.arrival for exchange in call.road.begun]
    assert [arrival.headers["content-length"] for arrival in arrivals] == [str(size) for size in sizes]
    assert [arrival.raw for arrival in arrivals] == [body_of(size) for size in sizes]
    assert len({arrival.id for arrival in arrivals}) == len(sizes)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"max_body_bytes": 10}, b"413"),
        ({"max_headers": 2}, b"431"),
        ({"max_header_bytes": 60}, b"431"),
        ({"max_in_flight": 0}, b"503"),
    ],
)
async def test_a_new_plan_counts_for_a_head_that_came_before(call, limits, status):
    assert (await call.send(CREATE, CREATE)).count(b"HTTP/1.1 200") == 2
    call.road.use(**limits)

    assert (await call.send(CREATE))[9:12] == status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((b"content-length: ", b"content-length: 7\r\ncontent-length: "), b"400"),
        ((b"content-length: ", b"content-length: 1,"), b"400"),
        ((b"content-length: ", b"content-length: 999999"), b"413"),
        ((b"host: 127.0.0.1", b"host: evil.example"), b"403"),
        ((b"host: ", b"origin: http://evil.example\r\nhost: "), b"403"),
        ((b"application/json", b"text/plain"), b"415"),
    ],
)
async def test_a_bad_request_is_refused_behind_good_ones_that_are_like_it(call, change, status):
    assert (await call.send(CREATE, CREATE)).count(b"HTTP/1.1 200") == 2

    assert (await call.send(CREATE.replace(*change)))[9:12] == status
    assert len(call.road.begun) == 2


async def test_a_chunked_request_is_handed_over_behind_one_with_a_length(call):
    await call.send(CREATE)
    chunked = request_bytes("/v1/chat/completions", b"2\r\n{}\r\n0\r\n\r\n", {"transfer-encoding": "chunked"})

    await call.send(chunked)

    assert call.transport.protocol.received == chunked


async def test_a_compressed_request_is_handed_over_behind_a_plain_one_that_is_like_it(call):
    await call.send(CREATE)
    compressed = CREATE.replace(b"host: ", b"content-encoding: gzip\r\nhost: ")

    await call.send(compressed)

    assert call.transport.protocol.received == compressed


async def test_every_body_is_asked_for_when_the_caller_waits_for_that(call):
    for size in (2, 30, 400):
        data = request_bytes("/v1/messages", body_of(size), {"expect": "100-continue"})
        head, body = data[:-size], data[-size:]

        assert await call.send(head) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await call.send(body)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("change", "closes"),
    [((b"", b""), False), ((b"host:", b"connection: close\r\nhost:"), True), ((b"HTTP/1.1", b"HTTP/1.0"), True)],
    ids=["kept", "close", "1.0"],
)
async def test_a_connection_is_kept_or_closed_as_asked(call, change, closes):
    answer = await call.send(CREATE.replace(*change, 1) if change[0] else CREATE)

    assert call.transport.is_closed is closes
    assert (b"connection: close" in answer) is closes


async def test_a_connection_that_is_asked_to_stop_finishes_what_is_under_way(call):
    gate = answer_after(call)
    await call.send(CREATE)
    call.connection.shutdown()
    early = call.transport.is_closed
    gate.set()
    await call.turn()

    assert (early, call.transport.is_closed) == (False, True)
    assert call.transport.written.endswith(ANSWER)


@pytest.mark.parametrize("is_used", [True, False], ids=["used before", "never used"])
async def test_an_idle_connection_that_is_asked_to_stop_closes(call, is_used):
    if is_used:
        await call.send(CREATE)
    else:
        await call.loop.advance(1)

    call.connection.shutdown()

    assert call.transport.is_closed


async def test_a_connection_that_was_just_made_when_the_stop_comes_has_its_request_served(call):
    call.connection.shutdown()
    early = call.transport.is_closed

    answer = await call.send(CREATE)

    assert (early, call.transport.is_closed) == (False, True)
    assert answer.endswith(ANSWER)
    assert b"connection: close" in answer


async def test_a_connection_that_was_just_made_and_asks_for_nothing_does_not_hold_up_a_stop(call):
    call.connection.shutdown()

    await call.loop.advance(1)

    assert call.transport.is_closed


async def test_what_is_not_a_create_call_is_handed_over_with_its_bytes_and_the_time_it_has_left(call):
    await call.send(b"POST /v1/m")
    await call.loop.advance(4)
    await call.send(b"odels HTTP/1.1\r\n")

    successor = call.transport.protocol
    assert (successor.received, successor.seconds) == (b"POST /v1/models HTTP/1.1\r\n", 6)
    assert successor.transport is call.transport
    assert call.connections == set()
    await call.loop.advance(100)
    assert not call.transport.is_closing()


async def test_a_whole_request_that_is_handed_over_has_the_full_time(call):
    await call.loop.advance(5)
    await call.send(request_bytes("/v1/models"))

    assert call.transport.protocol.seconds == 10


async def test_a_slow_reader_pauses_the_upstream_until_it_has_caught_up(call):
    flow = Flow()

    async def feed(exchange, sink):
        sink.feed_from(flow)
        await asyncio.Event().wait()

    call.road.script = feed
    await call.send(CREATE)
    call.connection.pause_writing()
    call.connection.resume_writing()

    assert flow.calls == ["pause", "resume"]


@pytest.mark.parametrize("reads", [True, False])
async def test_memory_is_given_back_when_a_caller_leaves_that_did_not_read(call, monkeypatch, reads):
    asked: list[object] = []
    monkeypatch.setattr(call.admission.speedups.memory, "give_back_later", asked.append)
    call.road.script = wait_for_ever
    await call.send(CREATE)
    if not reads:
        call.connection.pause_writing()
    call.connection.connection_lost(None)

    assert len(asked) == (0 if reads else 1)


async def test_an_upstream_that_begins_on_a_paused_connection_is_paused_at_once(call):
    flow = Flow()
    gate = asyncio.Event()

    async def feed(exchange, sink):
        await gate.wait()
        sink.feed_from(flow)
        await asyncio.Event().wait()

    call.road.script = feed
    await call.send(CREATE)
    call.connection.pause_writing()
    gate.set()
    await call.turn()

    assert flow.calls == ["pause"]


async def test_a_caller_that_reads_slowly_is_kept_and_one_that_does_not_read_is_cut(call):
    call.road.script = wait_for_ever
    await call.send(CREATE)
    call.transport.unread = 300_000
    call.connection.pause_writing()

    call.transport.unread = 200_000
    await call.loop.advance(31)
    while_it_reads = call.transport.is_aborted
    await call.loop.advance(31)

    assert (while_it_reads, call.transport.is_aborted) == (False, True)


async def test_a_caller_that_does_not_read_is_cut_whatever_it_sends(call):
    settled = settle_after(call)
    await call.send(CREATE)
    call.transport.unread = 300_000
    call.connection.pause_writing()
    settled.set()
    await call.turn()
    await call.send(CREATE[:50], CREATE[50:])
    begun = len(call.road.begun)

    await call.loop.advance(31)

    assert (begun, call.transport.is_aborted) == (1, True)


@pytest.mark.parametrize("cut", [40, HEAD_END, HEAD_END + 5, len(CREATE)])
async def test_what_came_while_the_answer_was_not_read_is_served_once_it_is(call, cut):
    settled = settle_after(call)
    await call.send(CREATE)
    call.connection.pause_writing()
    settled.set()
    await call.turn()
    await call.send(CREATE[:cut])
    while_paused = len(call.road.begun)
    call.connection.resume_writing()
    await call.send(CREATE[cut:])

    assert (while_paused, len(call.road.begun)) == (1, 2)


async def test_a_body_that_was_whole_before_the_pause_ended_is_served_after_it(call):
    await call.send(CREATE[:-5])
    call.connection.pause_writing()
    while_paused = await call.send(CREATE[-5:])

    call.connection.resume_writing()
    await call.turn()

    assert while_paused == b""
    assert call.transport.written.endswith(ANSWER)


CLOSING = CREATE.replace(b"host:", b"connection: close\r\nhost:")


async def cut_an_answer(exchange, sink):
    sink.start(200, (("content-type", "text/event-stream"),))
    sink.write(b"data: x\n\n")
    sink.fail(UpstreamCut("spark", "cut"))


@pytest.mark.parametrize(("script", "data"), [(answer_ok, CLOSING), (cut_an_answer, CREATE)], ids=["closing", "cut"])
async def test_the_last_answer_may_be_read_slowly_and_must_be_read(call, script, data):
    call.road.script = script
    call.transport.unread = 100_000
    await call.send(data)
    await call.loop.advance(29)
    call.transport.unread = 50_000
    await call.loop.advance(29)
    while_it_reads = call.transport.is_aborted

    await call.loop.advance(31)

    assert (while_it_reads, call.transport.is_aborted) == (False, True)


async def test_nothing_is_served_behind_the_last_answer_of_a_connection(call):
    call.road.script = wait_for_ever
    await call.send(CLOSING + CREATE)
    call.connection.pause_writing()
    call.road.begun[0].cancel(CancelReason.STOPPING)
    await call.turn()

    call.connection.resume_writing()
    await call.turn()

    assert call.transport.is_closed
    assert len(call.road.begun) == 1


async def test_the_body_of_the_next_request_keeps_its_deadline_across_a_pause(call):
    await call.send(CREATE[:-5])
    call.connection.pause_writing()
    call.connection.resume_writing()

    await call.loop.advance(60)

    assert call.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_a_flood_behind_a_running_request_ends_the_connection(call):
    call.road.script = wait_for_ever
    await call.send(CREATE, b"x" * 70_000)

    assert call.transport.is_aborted


async def test_a_large_next_request_waits_while_the_last_one_is_recorded(call):
    settled = settle_after(call)
    large = request_bytes("/v1/messages", b" " * 80_000)
    await call.send(CREATE, large)
    held_back = call.transport.is_reading_paused
    settled.set()
    await call.turn()

    assert (held_back, call.transport.is_reading_paused, call.transport.is_aborted) == (True, False, False)
    assert len(call.road.begun) == 2
