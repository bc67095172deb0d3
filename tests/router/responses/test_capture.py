"""A capture sees what the caller sees, and notes the response before its last bytes leave."""

import json

import pytest

from router.contract.facts import AttemptOpened, ResponseCompleted
from router.contract.sinks import watch
from router.dialects.sse import split_frames
from router.responses.capture import capture, read_response, read_whole
from tests.router.responses.kept import CALL, SAID
from tests.tools.exchanges import make_exchange
from tests.tools.values import make_target

RESPONSE = {"id": "resp_1", "output": [{"type": "message"}]}
LAST = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': RESPONSE})}\n\n".encode()
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"%s"}\n\n'


class Log:
    """A caller's end that keeps what it is sent."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def feed_from(self, flow) -> None: ...
    def start(self, status, headers) -> None: ...

    def write(self, data: bytes) -> None:
        self.seen.append(data)

    def end(self) -> None:
        self.seen.append("end")

    def fail(self, error) -> None:
        self.seen.append("fail")


class Noting:
    """Puts each completed response where the caller's bytes go, so that their order can be seen."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def handlers(self):
        return {ResponseCompleted: lambda exchange, fact: self._log.seen.append(fact.response)}


def captured(*, is_streaming: bool = True):
    log = Log()
    exchange = make_exchange(Noting(log))
    exchange.note(AttemptOpened(0.0, make_target(), "", ()))
    return watch(log, capture(exchange, is_streaming=is_streaming)), log.seen


def test_a_stream_is_noted_before_the_piece_that_ends_it_leaves():
    sink, seen = captured()

    for piece in (DELTA % b"a", LAST[:30], LAST[30:]):
        sink.write(piece)
    sink.end()

    assert seen == [DELTA % b"a", LAST[:30], RESPONSE, LAST[30:], "end"]


def test_an_event_whose_name_is_cut_in_two_is_noted_at_the_end():
    sink, seen = captured()

    for piece in (LAST[:16], LAST[16:].replace(b'"response.completed"', b'"response.\\u0063ompleted"')):
        sink.write(piece)
    sink.end()

    assert seen[-2:] == [RESPONSE, "end"]


def test_a_text_that_names_the_event_is_not_taken_for_it():
    sink, seen = captured()

    sink.write(DELTA % b"response.completed")
    sink.write(LAST)

    assert seen == [DELTA % b"response.completed", RESPONSE, LAST]


def test_a_stream_that_fails_is_not_noted():
    sink, seen = captured()

    sink.write(DELTA % b"a")
    sink.fail(RuntimeError())

    assert seen == [DELTA % b"a", "fail"]


def test_a_whole_answer_is_noted_once_it_is_whole_and_before_it_ends():
    sink, seen = captured(is_streaming=False)
    raw = json.dumps(RESPONSE).encode()

    sink.write(raw[:10])
    sink.write(raw[10:])
    sink.end()

    assert seen == [raw[:10], raw[10:], RESPONSE, "end"]


def frames(*events: dict):
    return split_frames(b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events))


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_a_stream_tells_its_response_in_its_last_event(kind):
    last = {"type": kind, "response": {"id": "resp_1", "output": [SAID]}}

    assert read_response(frames(last)) == last["response"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "response.failed", "response": {"id": "resp_1", "output": [SAID]}}],
        [{"type": "response.completed", "response": {"output": [SAID]}}],
        [{"type": "response.completed", "response": {"id": "resp_1", "output": []}}],
        [
            {"type": "response.output_item.done", "output_index": 1, "item": SAID},
            {"type": "response.completed", "response": {"id": "resp_1"}},
        ],
    ],
)
def test_a_stream_whose_output_is_not_known_whole_tells_nothing(events):
    assert read_response(frames(*events)) is None


def test_items_from_their_own_events_stand_in_for_an_output_that_was_left_empty():
    items = [
        {"type": "response.output_item.done", "output_index": place, "item": item} for place, item in ((0, CALL), (1, SAID))
    ]

    found = read_response(frames(*items, {"type": "response.completed", "response": {"id": "resp_1", "output": []}}))

    assert found["output"] == [CALL, SAID]


@pytest.mark.parametrize("raw", [b"no", b"[]", b'{"output": []}', b'{"id": "resp_1"}'])
def test_a_whole_answer_that_is_no_response_is_none(raw):
    assert read_whole(raw) is None
