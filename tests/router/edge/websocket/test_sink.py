"""An answer on its way to a socket."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import Unavailable
from router.contract.sinks import Serving, Waiting
from router.dialects.headers import QUEUED
from router.edge.websocket.sink import FrameSink
from tests.tools.edge import FakeSocket, Flow

STREAM = (("content-type", "text/event-stream"), ("x-tandem-tier", "fast"))
JSON = (("content-type", "application/json"), ("retry-after", "3"))
EVENTS = [
    {"type": "response.created", "response": {"id": "resp_1"}, "sequence_number": 0},
    {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "a\n\nb", "sequence_number": 1},
    {"type": "response.completed", "response": {"id": "resp_1"}, "sequence_number": 2},
]


def streamed(events=EVENTS, end: str = "\n") -> bytes:
    return "".join(f"event: {event['type']}{end}data: {json.dumps(event)}{end}{end}" for event in events).encode()


def sent(data: bytes, cuts: list[int], lane: str = "", headers=STREAM, *, takes_frames: bool = True) -> list[dict]:
    socket = FakeSocket()
    sink = FrameSink(socket, "req_1", lane, takes_frames)
    sink.start(200, headers)
    for begin, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        sink.write(data[begin:stop])
    sink.end()
    return socket.sent


@given(some.lists(some.integers(0, len(streamed())), max_size=8).map(sorted), some.sampled_from(["\n", "\r\n"]))
def test_every_event_is_a_frame_however_the_bytes_are_cut(cuts, end):
    data = b": comment\n\n" + streamed(end=end) + b"data: [DONE]\n\n"

    assert sent(data, [min(cut, len(data)) for cut in cuts])[1:] == EVENTS


def test_the_decision_comes_first_and_the_lane_is_in_every_frame():
    frames = sent(streamed(), [], "a")

    assert frames[0] == {"type": "tandem.decision", "stream_id": "a", "tier": "fast"}
    assert all(frame["stream_id"] == "a" for frame in frames)


@pytest.fixture
def socket():
    return FakeSocket()


def test_state_that_the_client_carries_comes_as_metadata(socket):
    FrameSink(socket, "req_1").start(200, (*STREAM, ("x-codex-turn-state", "token")))

    assert socket.sent[0] == {"type": "response.metadata", "headers": {"x-codex-turn-state": "token"}}


FIGURES = (("x-codex-primary-used-percent", "42"), ("x-codex-plan-type", "pro"))
LIMITS = {"type": "codex.rate_limits", "rate_limits": {"primary": {"used_percent": 42.5}}}


@pytest.mark.parametrize("lane", ["", "a"])
def test_a_plans_limits_come_before_the_first_event(lane):
    metadata, limits, *rest = sent(streamed(), [9], lane, (*STREAM, *FIGURES), takes_frames=False)

    assert metadata["headers"] == dict(FIGURES)
    assert (limits["type"], limits["plan_type"]) == ("codex.rate_limits", "pro")
    assert limits["rate_limits"]["primary"]["used_percent"] == 42
    assert [frame["type"] for frame in rest] == [event["type"] for event in EVENTS]
    assert {frame.get("stream_id", "") for frame in (metadata, limits, *rest)} == {lane}


def test_a_target_that_tells_its_limits_itself_is_not_repeated():
    _, *rest = sent(streamed([LIMITS, *EVENTS]), [], headers=(*STREAM, *FIGURES), takes_frames=False)

    assert rest[0] == LIMITS
    assert [frame["type"] for frame in rest[1:]] == [event["type"] for event in EVENTS]


def test_a_401_waits_until_it_is_known_whose_it_is(socket):
    sink = FrameSink(socket, "req_1")

    sink.start(401, JSON)
    sink.write(b'{"error":{"code":"caller_key"}}')
    sink.end()

    assert socket.sent == []
    assert json.loads(sink.unauthorized)["error"]["code"] == "caller_key"


def whole(body: bytes, status: int = 200) -> list[dict]:
    """The frames of an answer that comes in one piece."""
    socket = FakeSocket()
    sink = FrameSink(socket, "req_1")
    sink.start(status, JSON)
    sink.write(body)
    sink.end()
    return socket.sent


def test_a_refusal_is_one_error_with_its_status_and_wait():
    (frame,) = whole(b'{"error":{"code":"busy","message":"later"}}', 429)

    assert (frame["type"], frame["status"], frame["error"]["code"]) == ("error", 429, "busy")
    assert frame["headers"] == {"retry-after": "3"}


def test_an_answer_in_one_piece_is_a_completed_response():
    (frame,) = whole(b'{"object":"response","id":"resp_1"}')

    assert (frame["type"], frame["response"]["id"]) == ("response.completed", "resp_1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}"])
def test_what_is_no_answer_is_an_error(body):
    assert [(frame["type"], frame["status"]) for frame in whole(body)] == [("error", 502)]


def test_an_error_inside_a_stream_gets_the_form_of_a_socket_and_is_told_once(socket):
    sink = FrameSink(socket, "req_1", "", True)
    sink.start(200, STREAM)
    sink.write(
        b'event: error\ndata: {"type":"error","code":"overloaded","message":"later","param":null,"sequence_number":3}\n\n'
    )
    sink.fail(Unavailable("later"))

    errors = socket.sent[1:]
    assert [(frame["type"], frame["status"], frame["error"]["code"]) for frame in errors] == [("error", 502, "overloaded")]


def test_a_failure_without_a_word_of_its_own_is_told(socket):
    sink = FrameSink(socket, "req_1", "", True)
    sink.start(200, STREAM)
    sink.fail(Unavailable("the router is shutting down"))

    assert [(frame["type"], frame.get("status")) for frame in socket.sent[1:]] == [("error", 503)]


def test_a_cut_says_what_was_said_and_nothing_comes_after_it(socket):
    sink = FrameSink(socket, "req_1")
    sink.start(200, STREAM)
    sink.write(streamed(EVENTS[:2]))
    response = sink.cut("steered")
    sink.write(streamed(EVENTS[2:]))
    sink.end()

    assert response["output"][0]["content"][0]["text"] == "a\n\nb"
    assert (socket.sent[-1]["type"], socket.sent[-1]["sequence_number"]) == ("response.incomplete", 2)
    assert sink.is_over


def test_a_cut_before_the_first_event_says_nothing(socket):
    sink = FrameSink(socket, "req_1")

    assert sink.cut("steered") is None
    assert sink.response_id == ""
    assert socket.sent == []


def test_a_slow_reader_pauses_the_target():
    socket, tap = FakeSocket(), Flow()
    socket.is_paused = True
    sink = FrameSink(socket, "req_1")
    sink.feed_from(tap)
    sink.set_backpressure(is_paused=False)
    sink.set_backpressure(is_paused=True)
    sink.end()
    sink.set_backpressure(is_paused=False)

    assert tap.calls == ["pause", "resume", "pause"]


WAIT, SERVING = Waiting("spark", 1, 2, 4.0), Serving((*STREAM, ("x-tandem-target", "spark"), ("x-codex-turn-state", "token")))


def told(facts, stream: bytes = b"", lane: str = "", *, takes_frames: bool) -> list[dict]:
    """What a caller gets who waited, and was told these facts before a stream."""
    socket = FakeSocket()
    sink = FrameSink(socket, "req_1", lane, takes_frames)
    sink.start(200, (STREAM[0], QUEUED))
    for fact in facts:
        sink.tell(fact)
    sink.write(stream)
    sink.end()
    return socket.sent


@pytest.mark.parametrize("lane", ["", "main"])
def test_facts_come_in_frames_to_a_caller_who_asked_for_them(lane):
    frames = told([WAIT, SERVING], b": heartbeat\n\n" + streamed(), lane, takes_frames=True)[1:]

    extra = {"stream_id": lane} if lane else {}
    assert frames[:3] == [
        {"type": "tandem.queued", "message": "waiting for spark, position 1 of 2, about 4 s", **extra},
        {"type": "tandem.decision", "tier": "fast", "target": "spark", **extra},
        {"type": "response.metadata", "headers": {"x-codex-turn-state": "token"}, **extra},
    ]
    assert [frame["type"] for frame in frames[3:]] == [event["type"] for event in EVENTS]


def test_nothing_is_told_once_the_answer_is_over(socket):
    sink = FrameSink(socket, "req_1", "", True)
    sink.start(200, STREAM)
    sink.cut("interrupted")
    before = list(socket.sent)
    sink.tell(WAIT)
    sink.tell(SERVING)

    assert socket.sent == before


def test_a_response_is_known_by_its_id_after_any_number_of_comments():
    sink = FrameSink(FakeSocket(), "req_1")
    sink.start(200, STREAM)
    for _ in range(20):
        sink.write(b": waiting for spark, position 1 of 1, about 4 s\n\n")
    sink.write(streamed(EVENTS[:1]))

    assert sink.response_id == "resp_1"


@pytest.mark.parametrize(
    "comment",
    [
        b': tandem.decision {"tier":"deep"}\n\n',
        b": tandem.decision {broken\n\n",
        b": waiting for godot\n\n",
        b": tandem.decision []\n\n",
    ],
)
@pytest.mark.parametrize("facts", [[], [WAIT], [WAIT, SERVING]], ids=["no wait", "a wait", "served after a wait"])
@pytest.mark.parametrize("takes_frames", [True, False])
def test_a_target_cannot_speak_for_the_router_in_comments(comment, facts, takes_frames):
    assert told(facts, comment + streamed() + comment, takes_frames=takes_frames) == told(
        facts, streamed(), takes_frames=takes_frames
    )


@pytest.mark.parametrize("lane", ["", "main"])
@pytest.mark.parametrize(
    "event",
    [b"{}", b"{ }", b'{"type":"error", broken', b'{"type":"error","x":%b}' % (b"[" * 300 + b"]" * 300), b'{"a":"\xff"}'],
)
def test_an_odd_event_of_a_target_is_a_frame_of_json_all_the_same(event, lane):
    frames = sent(b"data: " + event + b"\n\n" + streamed(), [], lane)

    assert len(frames) == 5
    assert all(frame.get("stream_id", "") == lane for frame in frames)


def test_of_an_answer_of_many_megabytes_little_is_held():
    sink = FrameSink(Quiet(), "req_1")
    sink.start(200, STREAM)
    sink.write(streamed(EVENTS[:1]))
    tracemalloc.start()
    for _ in range(100):
        sink.write(streamed([{**EVENTS[1], "delta": "x" * 100_000}]))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 2_000_000
    assert sink.is_forgotten
    assert sink.response_id == "resp_1"


class Quiet(FakeSocket):
    def send(self, frames: list[bytes]) -> None:
        pass


def created(**response: object) -> bytes:
    return streamed([{"type": "response.created", "response": {"id": "resp_1", **response}, "sequence_number": 0}])


def test_a_caller_who_did_not_ask_for_our_frames_gets_the_targets_events_alone():
    frames = sent(streamed(), [], takes_frames=False)

    assert [frame["type"] for frame in frames] == [event["type"] for event in EVENTS]
    assert frames[0]["response"] == {"id": "resp_1", "metadata": {"x-tandem-tier": "fast"}}
    assert frames[1:] == EVENTS[1:]


@pytest.mark.parametrize("own", [None, {}, {"team": "blue"}, {"x-tandem-tier": "mine"}])
def test_what_the_caller_put_into_the_metadata_stays(own):
    (frame,) = sent(created(metadata=own, temperature=1.0), [], takes_frames=False)

    assert frame["response"]["metadata"] == {"x-tandem-tier": "fast", **(own or {})}
    assert frame["response"]["temperature"] == 1.0


@pytest.mark.parametrize(("given", "expected"), [(14, 16), (15, 16), (16, 16), (20, 20)])
def test_metadata_never_grows_over_what_openai_allows(given, expected):
    headers = (*STREAM, ("x-tandem-because", "b" * 600), ("x-tandem-target", "spark"))
    own = {f"key{number}": "value" for number in range(given)}

    (frame,) = sent(created(metadata=own), [], headers=headers, takes_frames=False)

    metadata = frame["response"]["metadata"]
    assert len(metadata) == expected
    assert own.items() <= metadata.items()
    assert max(map(len, metadata.values())) <= 512


@pytest.mark.parametrize("event", [b'{"type":"response.created"}', b'{"type":"response.created","response":[1]}'])
def test_an_odd_beginning_passes_as_it_is(event):
    frames = sent(b"data: " + event + b"\n\n", [], takes_frames=False)

    assert frames == [json.loads(event)]


def test_a_caller_who_waited_is_told_in_the_metadata_who_serves():
    _, *frames = told([WAIT, SERVING], streamed(), takes_frames=False)

    assert [frame["type"] for frame in frames] == [event["type"] for event in EVENTS]
    assert frames[0]["response"]["metadata"] == {"x-tandem-tier": "fast", "x-tandem-target": "spark"}


def test_a_failure_is_known_by_its_status_and_an_interrupt_is_none():
    failed, broken, whole, interrupted = (FrameSink(FakeSocket(), "req_1") for _ in range(4))
    failed.fail(Unavailable("full"))
    broken.start(200, STREAM)
    broken.write(b'data: {"type":"response.failed","response":{}}\n\n')
    whole.start(400, JSON)
    whole.write(b"{}")
    whole.end()
    interrupted.start(200, STREAM)
    interrupted.cut("steered")
    interrupted.fail(Unavailable("cancelled"))

    assert [sink.failed_with for sink in (failed, broken, whole, interrupted)] == [503, 502, 400, 0]
