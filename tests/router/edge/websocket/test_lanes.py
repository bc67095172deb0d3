"""The lanes of a socket: order, limits, interrupts. Whole sockets are walked in `tests/walk/test_sockets.py`."""

import asyncio
import json

import pytest

from router.contract.exchange import CancelReason
from router.edge.admission import Admission
from router.edge.http.head import parse_head
from router.edge.websocket.lanes import Lanes
from router.stores.memory.responses import MemoryResponses
from router.stores.memory.socket_responses import SocketResponses
from tests.tools.edge import FakeRoad, FakeSocket, wait_for_ever
from tests.tools.waiting import some_turns, until


@pytest.fixture
async def make():
    """Makes the lanes of a socket, and a function that sends messages to them. They are closed with the test."""
    made: list[tuple[Lanes, Admission]] = []

    def build(serve=wait_for_ever, **limits):
        socket, road = FakeSocket(), FakeRoad(serve, **limits)
        admission, responses = Admission(road), SocketResponses(MemoryResponses())
        lanes = Lanes(socket, admission, parse_head(b"GET /v1/responses HTTP/1.1\r\n\r\n"), responses, lambda: None)
        made.append((lanes, admission))

        def send(*messages: bytes) -> bool:
            results = [lanes.receive(lanes.read(message)) for message in messages]
            return all(results)

        return lanes, send, socket, road

    yield build
    for lanes, admission in made:
        lanes.close()
        await some_turns()
        assert (lanes.is_idle, admission.in_flight) == (True, 0)


def create(lane: str = "", **more) -> bytes:
    named = {"stream_id": lane} if lane else {}
    return json.dumps({"type": "response.create", "model": "auto", "input": "hi", **named, **more}).encode()


async def test_a_socket_has_so_many_lanes_and_runs_so_many_at_once(make):
    lanes, send, socket, _ = make(max_in_flight=99)
    for number in range(33):
        send(create(f"lane{number}"))
    await asyncio.sleep(0)

    assert len(lanes.running) == 16
    assert [frame["error"]["code"] for frame in socket.sent] == ["websocket_stream_limit_reached"]


async def test_only_so_many_wait(make):
    _, send, socket, _ = make()
    for _ in range(66):
        send(create())

    assert [frame["status"] for frame in socket.sent] == [503]


async def test_a_caller_that_leaves_takes_its_requests_along(make):
    lanes, send, _, road = make()
    send(create("a"), create("b"))
    await asyncio.sleep(0)
    lanes.close()
    await some_turns()

    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.CALLER_LEFT] * 2


async def test_a_request_that_interrupts_cancels_the_one_before_it(make):
    _, send, _, road = make()
    send(create())
    await asyncio.sleep(0)
    send(create(client_metadata={"x-tandem-busy": "interrupt"}))
    await some_turns()

    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.INTERRUPTED, None]


@pytest.mark.parametrize(
    ("previous", "goes_on_from"),
    [("resp_parent", "resp_cut"), ("resp_cut", "resp_cut"), ("resp_other", "resp_other"), (None, None)],
)
async def test_new_words_after_the_same_response_come_after_what_was_said_meanwhile(make, previous, goes_on_from):
    async def begin_to_speak(exchange, sink):
        sink.start(200, (("content-type", "text/event-stream"),))
        sink.write(b'data: {"type": "response.created", "response": {"id": "resp_cut", "output": []}}\n\n')
        await wait_for_ever(exchange, sink)

    _, send, _, road = make(begin_to_speak)
    send(create(previous_response_id="resp_parent"))
    await asyncio.sleep(0)
    named = {"previous_response_id": previous} if previous else {}
    send(create(client_metadata={"x-tandem-busy": "interrupt"}, **named))
    await until(lambda: len(road.begun) == 2)

    assert json.loads(road.begun[1].arrival.raw).get("previous_response_id") == goes_on_from


async def test_a_request_that_is_interrupted_before_it_began_still_ends_with_an_event(make):
    _, send, socket, road = make()
    send(create())
    await asyncio.sleep(0)
    for _ in range(2):
        send(create(client_metadata={"x-tandem-busy": "interrupt"}))

    assert [frame["error"]["code"] for frame in socket.sent] == ["interrupted"] * 2
    await some_turns()
    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.INTERRUPTED, None]


async def test_requests_that_find_no_slot_are_all_refused_and_hold_up_nobody(make):
    _, send, socket, _ = make(max_in_flight=1)
    send(create("a"))
    await asyncio.sleep(0)
    send(create("b"), create("b"))

    assert [(frame["status"], frame["stream_id"]) for frame in socket.sent] == [(503, "b")] * 2


async def test_only_so_many_bytes_wait(make):
    _, send, socket, _ = make()
    large = create(instructions="x" * (25 << 20))
    for _ in range(4):
        send(large)

    assert [frame["status"] for frame in socket.sent] == [503]


def steer(previous: object, words: bytes = b'"STEERED"') -> bytes:
    named = b"" if previous is None else b'"previous_response_id":%b,' % json.dumps(previous).encode()
    return b'{"type":"response.steer",%b"input":%b}' % (named, words)


DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize("previous", [None, "", 5, [], "resp_of_nobody"])
async def test_a_steer_that_names_no_running_response_ends_none(make, previous):
    _, send, socket, road = make()
    send(create("a"))
    send(steer(previous))
    await some_turns()

    assert [(frame["type"], frame["error"]["code"]) for frame in socket.sent] == [
        ("response.steer.failed", "response_not_found")
    ]
    assert [exchange.cancelled for exchange in road.begun] == [None]


async def say_something(exchange, sink) -> None:
    sink.start(200, (("content-type", "text/event-stream"),))
    sink.write(b'data: {"type":"response.created","response":{"id":"resp_1"}}\n\n')
    await asyncio.Event().wait()


@pytest.mark.parametrize("words", [DEEP, b'[{"role":"user","content":%b}]' % DEEP])
async def test_words_that_cannot_be_sent_on_end_no_response(make, words):
    _, send, socket, road = make(say_something)
    send(create("a"))
    await some_turns()
    send(steer("resp_1", words))

    assert (socket.sent[-1]["type"], socket.sent[-1]["error"]["code"]) == ("response.steer.failed", "invalid_input")
    assert [exchange.cancelled for exchange in road.begun] == [None]


async def test_a_defect_of_ours_in_one_message_leaves_the_lanes_of_others(make, monkeypatch):
    lanes, send, socket, road = make()
    send(create("a"))
    monkeypatch.setattr(lanes, "_enqueue", lambda message: 1 / 0)

    assert not send(create("b"))
    assert (socket.sent[-1]["status"], socket.sent[-1]["error"]["code"]) == (500, "internal_error")
    assert [exchange.cancelled for exchange in road.begun] == [None]
