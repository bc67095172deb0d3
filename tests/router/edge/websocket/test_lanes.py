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


def make(serve=wait_for_ever, **limits):
    socket, road, idle = FakeSocket(), FakeRoad(serve, **limits), []
    admission = Admission(road)
    responses = SocketResponses(MemoryResponses())
    lanes = Lanes(socket, admission, parse_head(b"GET /v1/responses HTTP/1.1\r\n\r\n"), responses, lambda: idle.append(1))
    return lanes, socket, road, admission


def create(lane: str = "", **more) -> bytes:
    named = {"stream_id": lane} if lane else {}
    return json.dumps({"type": "response.create", "model": "auto", "input": "hi", **named, **more}).encode()


async def test_a_socket_has_so_many_lanes_and_runs_so_many_at_once():
    lanes, socket, _, admission = make(max_in_flight=99)
    for number in range(33):
        lanes.receive(lanes.read(create(f"lane{number}")))
    await asyncio.sleep(0)

    assert len(lanes.running) == admission.in_flight == 16
    assert [frame["error"]["code"] for frame in socket.sent] == ["websocket_stream_limit_reached"]
    lanes.close()
    await some_turns()
    assert admission.in_flight == 0


async def test_only_so_many_wait():
    lanes, socket, _, _ = make()
    for _ in range(66):
        lanes.receive(lanes.read(create()))

    assert [frame["status"] for frame in socket.sent] == [503]
    lanes.close()
    await some_turns()
    assert lanes.is_idle


async def test_a_caller_that_leaves_takes_its_requests_along():
    lanes, _, road, _ = make()
    lanes.receive(lanes.read(create("a")))
    lanes.receive(lanes.read(create("b")))
    await asyncio.sleep(0)
    lanes.close()
    await some_turns()

    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.CALLER_LEFT] * 2


async def test_a_request_that_interrupts_cancels_the_one_before_it():
    lanes, _, road, _ = make()
    lanes.receive(lanes.read(create()))
    await asyncio.sleep(0)
    lanes.receive(lanes.read(create(client_metadata={"x-tandem-busy": "interrupt"})))
    await some_turns()

    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.INTERRUPTED, None]
    lanes.close()
    await some_turns()


@pytest.mark.parametrize(
    ("previous", "goes_on_from"),
    [("resp_parent", "resp_cut"), ("resp_cut", "resp_cut"), ("resp_other", "resp_other"), (None, None)],
)
async def test_new_words_after_the_same_response_come_after_what_was_said_meanwhile(previous, goes_on_from):
    async def begin_to_speak(exchange, sink):
        sink.start(200, (("content-type", "text/event-stream"),))
        sink.write(b'data: {"type": "response.created", "response": {"id": "resp_cut", "output": []}}\n\n')
        await wait_for_ever(exchange, sink)

    lanes, _, road, _ = make(begin_to_speak)
    lanes.receive(lanes.read(create(previous_response_id="resp_parent")))
    await asyncio.sleep(0)
    named = {"previous_response_id": previous} if previous else {}
    lanes.receive(lanes.read(create(client_metadata={"x-tandem-busy": "interrupt"}, **named)))
    await until(lambda: len(road.begun) == 2)

    assert json.loads(road.begun[1].arrival.raw).get("previous_response_id") == goes_on_from
    lanes.close()
    await some_turns()


async def test_a_request_that_is_interrupted_before_it_began_still_ends_with_an_event():
    lanes, socket, road, _ = make()
    lanes.receive(lanes.read(create()))
    await asyncio.sleep(0)
    for _ in range(2):
        lanes.receive(lanes.read(create(client_metadata={"x-tandem-busy": "interrupt"})))

    assert [frame["error"]["code"] for frame in socket.sent] == ["interrupted"] * 2
    await some_turns()
    assert [exchange.cancelled for exchange in road.begun] == [CancelReason.INTERRUPTED, None]
    lanes.close()
    await some_turns()


async def test_requests_that_find_no_slot_are_all_refused_and_hold_up_nobody():
    lanes, socket, _, admission = make(max_in_flight=1)
    lanes.receive(lanes.read(create("a")))
    await asyncio.sleep(0)
    lanes.receive(lanes.read(create("b")))
    lanes.receive(lanes.read(create("b")))

    assert [(frame["status"], frame["stream_id"]) for frame in socket.sent] == [(503, "b")] * 2
    lanes.close()
    await some_turns()
    assert (lanes.is_idle, admission.in_flight) == (True, 0)


async def test_only_so_many_bytes_wait():
    lanes, socket, _, _ = make()
    large = create(instructions="x" * (25 << 20))
    for _ in range(4):
        lanes.receive(lanes.read(large))

    assert [frame["status"] for frame in socket.sent] == [503]
    lanes.close()
    await some_turns()
    assert lanes.is_idle


def steer(previous: object, words: bytes = b'"STEERED"') -> bytes:
    named = b"" if previous is None else b'"previous_response_id":%b,' % json.dumps(previous).encode()
    return b'{"type":"response.steer",%b"input":%b}' % (named, words)


DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize("previous", [None, "", 5, [], "resp_of_nobody"])
async def test_a_steer_that_names_no_running_response_ends_none(previous):
    lanes, socket, road, _ = make()
    lanes.receive(lanes.read(create("a")))
    lanes.receive(lanes.read(steer(previous)))
    await some_turns()

    assert [(frame["type"], frame["error"]["code"]) for frame in socket.sent] == [
        ("response.steer.failed", "response_not_found")
    ]
    assert [exchange.cancelled for exchange in road.begun] == [None]
    lanes.close()
    await some_turns()


async def say_something(exchange, sink) -> None:
    sink.start(200, (("content-type", "text/event-stream"),))
    sink.write(b'data: {"type":"response.created","response":{"id":"resp_1"}}\n\n')
    await asyncio.Event().wait()


@pytest.mark.parametrize("words", [DEEP, b'[{"role":"user","content":%b}]' % DEEP])
async def test_words_that_cannot_be_sent_on_end_no_response(words):
    lanes, socket, road, _ = make(say_something)
    lanes.receive(lanes.read(create("a")))
    await some_turns()
    lanes.receive(lanes.read(steer("resp_1", words)))

    assert (socket.sent[-1]["type"], socket.sent[-1]["error"]["code"]) == ("response.steer.failed", "invalid_input")
    assert [exchange.cancelled for exchange in road.begun] == [None]
    lanes.close()
    await some_turns()


async def test_a_defect_of_ours_in_one_message_leaves_the_lanes_of_others(monkeypatch):
    lanes, socket, road, _ = make()
    lanes.receive(lanes.read(create("a")))
    monkeypatch.setattr(lanes, "_enqueue", lambda message: 1 / 0)

    assert not lanes.receive(lanes.read(create("b")))
    assert (socket.sent[-1]["status"], socket.sent[-1]["error"]["code"]) == (500, "internal_error")
    assert [exchange.cancelled for exchange in road.begun] == [None]
    lanes.close()
    await some_turns()
