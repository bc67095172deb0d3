"""The end of an answer waits for the store; everything before it does not."""

import asyncio
from collections import Counter

import pytest

from router.contract.errors import Unavailable
from router.contract.sinks import Waiting
from router.responses.acknowledged import HOLD_SECONDS, AcknowledgedSink
from tests.tools.exchanges import RecordingSink
from tests.tools.loop_clock import seconds_passed

pytestmark = pytest.mark.jumping_clock

STREAM = (("content-type", "text/event-stream; charset=utf-8"),)
JSON = (("content-type", "application/json"),)
TOKEN, DONE = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n', b"data: [DONE]\n\n"
ENDS = [
    DONE,
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    b'event: response.completed\ndata: {"type":"response.completed"}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason": "tool_calls"}]}\n\n',
    b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\n',
]


class Answer:
    """One answer on its way, and the write that it waits for."""

    def __init__(self, headers=STREAM, status: int = 200) -> None:
        self.caller, self.unconfirmed = RecordingSink(), Counter[str]()
        self.sink = AcknowledgedSink(self.caller, self.unconfirmed, asyncio.get_running_loop())
        self.written = asyncio.get_running_loop().create_future()
        self.sink.start(status, headers)

    def note_first_byte(self, kind: str = "sessions") -> None:
        self.sink.wait_for(kind, self.written)

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


async def test_the_first_piece_of_a_stream_leaves_at_once_and_the_next_when_the_write_is_confirmed():
    answer = Answer()
    answer.sink.write(TOKEN)
    answer.note_first_byte()
    answer.sink.write(TOKEN)
    answer.sink.write(DONE)
    answer.sink.end()
    await answer.settle()
    assert answer.caller.told == [("start", 200), ("write", TOKEN)]

    answer.written.set_result(None)
    await answer.sink.wait()

    assert answer.caller.told[2:] == [("write", TOKEN), ("write", DONE), ("end",)]
    assert not answer.unconfirmed


async def test_nothing_waits_once_the_write_is_confirmed():
    answer = Answer()
    answer.sink.write(TOKEN)
    answer.note_first_byte()
    answer.written.set_result(None)
    await answer.settle()

    answer.sink.write(DONE)
    answer.sink.end()

    assert answer.caller.body == TOKEN + DONE
    assert answer.caller.over.is_set()


@pytest.mark.parametrize("last", ENDS)
async def test_a_first_piece_that_may_be_the_last_waits_for_a_write_that_is_made_right_after_it(last):
    answer = Answer()
    answer.sink.write(TOKEN + last)
    answer.note_first_byte()
    await answer.settle()
    assert answer.caller.body == b""

    answer.written.set_result(None)
    await answer.sink.wait()
    assert answer.caller.body == TOKEN + last


async def test_an_answer_in_one_piece_waits_as_a_whole_until_its_request_is_settled():
    answer, other = Answer(JSON), asyncio.get_running_loop().create_future()
    answer.sink.wait_for("sessions", other)
    answer.sink.write(b"{}")
    answer.sink.end()
    other.set_result(None)
    await answer.settle()
    assert answer.caller.told == [("start", 200)], "more may be written for it"
    answer.note_first_byte()
    leaving = asyncio.gather(answer.sink.wait())
    await answer.settle()
    assert answer.caller.told == [("start", 200)]

    answer.written.set_result(None)
    await leaving
    assert answer.caller.told[1:] == [("write", b"{}"), ("end",)]


async def test_an_answer_that_wrote_nothing_leaves_when_its_request_is_settled():
    answer = Answer(JSON)
    answer.sink.write(b"{}")
    answer.sink.end()

    await answer.sink.wait()

    assert answer.caller.words == ["start", "write", "end"]


async def test_a_refusal_does_not_wait():
    answer = Answer(JSON, status=429)
    answer.sink.write(b"{}")
    answer.sink.end()

    assert answer.caller.words == ["start", "write", "end"]


async def test_the_end_waits_for_a_response_that_is_written_with_the_last_piece():
    answer = Answer()
    first = asyncio.get_running_loop().create_future()
    answer.sink.write(TOKEN)
    answer.sink.wait_for("sessions", first)
    first.set_result(None)
    await answer.settle()
    answer.note_first_byte("responses")
    answer.sink.write(DONE)
    assert answer.caller.body == TOKEN

    answer.written.set_result(None)
    await answer.settle()
    assert answer.caller.body == TOKEN + DONE


async def test_a_write_that_is_not_confirmed_in_time_is_counted_and_holds_nothing_more():
    answer = Answer(JSON)
    answer.sink.write(b"{}")
    answer.note_first_byte()
    answer.sink.end()
    await answer.sink.wait()

    assert seconds_passed() == pytest.approx(HOLD_SECONDS)
    assert answer.caller.words == ["start", "write", "end"]
    assert answer.unconfirmed == {"sessions": 1}
    answer.written.set_exception(OSError("gone"))
    await answer.settle()
    assert answer.unconfirmed == {"sessions": 1}, "one answer is counted once"


async def test_a_write_that_failed_is_counted_and_lets_the_answer_go():
    answer = Answer(JSON)
    answer.sink.write(b"{}")
    answer.sink.end()
    answer.note_first_byte()

    answer.written.set_exception(OSError("gone"))
    await answer.sink.wait()

    assert answer.caller.words == ["start", "write", "end"]
    assert answer.unconfirmed == {"sessions": 1}


async def test_what_is_told_stays_in_its_place_between_two_pieces():
    answer, fact = Answer(), Waiting("sage", 1, 1, 2.0)
    answer.sink.tell(fact)
    answer.sink.write(TOKEN)
    answer.note_first_byte()
    answer.sink.write(TOKEN)
    answer.sink.tell(fact)
    answer.written.set_result(None)
    await answer.settle()

    assert answer.caller.words == ["start", "tell", "write", "tell"]


async def test_a_failure_comes_after_what_was_held_back():
    answer, error = Answer(), Unavailable("gone")
    answer.sink.write(TOKEN)
    answer.note_first_byte()
    answer.sink.write(TOKEN)

    answer.sink.fail(error)

    assert answer.caller.told[-2:] == [("write", TOKEN), ("fail", error)]
