"""One call: its connection, its second chance, its timeouts. The clock jumps, and nothing is dialled."""

import asyncio

import pytest

from router.contract.errors import BadRequest, UpstreamCut, UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from router.loop.together import Outbox
from router.upstream.call import Call, PreparedCall
from tests.router.upstream.fakes import LAST, STREAM, WHOLE, FakeOrigin, chunk, make_request, open_connection, receive
from tests.tools.exchanges import RecordingSink
from tests.tools.loop_clock import seconds_passed

pytestmark = pytest.mark.jumping_clock


def begin(origin: FakeOrigin, **more) -> tuple[Call, RecordingSink]:
    sink = RecordingSink()
    return PreparedCall(origin, make_request(**more), b"POST /v1/chat HTTP/1.1\r\n").open(b"{}", sink), sink


def begin_warm(**more):
    """A call over a warm connection, whose transport keeps what is written."""
    connection, transport = open_connection()
    origin = FakeOrigin(warm=[connection])
    call, sink = begin(origin, **more)
    return call, sink, connection, transport, origin


async def turn_loop() -> None:
    """Let what is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_warm_connection_is_used_at_once_and_given_back_after_the_answer():
    _, sink, connection, transport, origin = begin_warm()
    assert transport.written == b"POST /v1/chat HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    receive(connection, WHOLE)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert (origin.given_back, origin.dialled) == ([connection], 0)


async def test_without_a_warm_connection_a_fresh_one_is_opened():
    connection, _transport = open_connection()
    origin = FakeOrigin(connection)

    _, sink = begin(origin)
    await turn_loop()
    receive(connection, WHOLE)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert (origin.given_back, origin.dialled) == ([connection], 1)


async def test_a_connection_that_may_not_be_reused_is_dropped():
    _, _, connection, transport, origin = begin_warm()

    receive(connection, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")

    assert origin.given_back == []
    assert transport.is_aborted


async def test_a_reused_connection_that_dies_before_any_answer_is_tried_once_more_on_a_fresh_one():
    warm, _ = open_connection()
    fresh, transport = open_connection()
    origin = FakeOrigin(fresh, warm=[warm])

    _, sink = begin(origin)
    warm.connection_lost(ConnectionResetError())
    await turn_loop()
    assert transport.written.endswith(b"{}")
    receive(fresh, WHOLE)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert origin.given_back == [fresh]


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (b"H", UpstreamUnreachable),
        (b"HTTP/1.1 103 Early\r\n\r\n", UpstreamUnreachable),
        (STREAM, UpstreamCut),
        (STREAM + chunk(b"a"), UpstreamCut),
    ],
)
async def test_once_any_byte_of_an_answer_was_seen_nothing_is_tried_again(seen, kind):
    _, sink, warm, _, origin = begin_warm()

    receive(warm, seen)
    warm.connection_lost(ConnectionResetError())
    await turn_loop()

    assert isinstance(sink.error, kind)
    assert origin.dialled == 0


@pytest.mark.parametrize("is_second", [False, True], ids=["alone", "after a warm one"])
async def test_a_fresh_connection_that_dies_is_not_tried_again(is_second):
    fresh, _ = open_connection()
    warm = [open_connection()[0]] if is_second else []
    origin = FakeOrigin(fresh, warm=warm)

    _, sink = begin(origin)
    for connection in warm:
        connection.connection_lost(None)
    await turn_loop()
    fresh.connection_lost(None)
    await turn_loop()

    assert isinstance(sink.error, UpstreamUnreachable)
    assert origin.dialled == 1


async def test_a_fresh_connection_that_is_closed_before_it_is_used_is_told_as_such():
    fresh, transport = open_connection()
    transport.abort()

    _, sink = begin(FakeOrigin(fresh))
    await turn_loop()

    assert sink.error.message == 'target "spark" closed the connection without an answer'


async def test_a_connection_that_cannot_be_had_is_told_with_its_reason():
    _, sink = begin(FakeOrigin("host name does not resolve"))

    await sink.finished()

    assert isinstance(sink.error, UpstreamUnreachable)
    assert sink.error.message == 'target "spark" could not be reached: host name does not resolve'
    assert sink.words == ["feed_from", "fail"]


@pytest.mark.parametrize("defect", [RuntimeError("ours"), asyncio.CancelledError()])
async def test_a_defect_while_connecting_ends_the_call_too(defect):
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    _, sink = begin(FakeOrigin(defect))

    await sink.finished()

    assert isinstance(sink.error, UpstreamUnreachable)


async def test_a_target_that_does_not_begin_is_given_up_after_its_time():
    _, sink, _, transport, _ = begin_warm()

    await sink.finished(1_000)

    assert seconds_passed() == pytest.approx(60)
    assert isinstance(sink.error, UpstreamTimeout)
    assert sink.error.message == 'target "spark" did not begin to answer in 60 s'
    assert transport.is_aborted


async def test_bytes_before_the_headers_are_whole_do_not_prolong_the_wait():
    _, sink, connection, _, _ = begin_warm()

    await asyncio.sleep(50)
    receive(connection, b"HTTP/1.1 200")
    await sink.finished(1_000)

    assert seconds_passed() == pytest.approx(60)


async def test_a_stream_may_last_as_long_as_its_pieces_come_and_ends_when_they_do_not():
    _, sink, connection, transport, _ = begin_warm()

    receive(connection, STREAM)
    for _ in range(10):
        await asyncio.sleep(29)
        receive(connection, chunk(b"a"))
    assert sink.error is None
    await sink.finished(1_000)

    assert seconds_passed() == pytest.approx(10 * 29 + 30)
    assert sink.error.message == 'target "spark" sent nothing for 30 s in mid-answer'
    assert transport.is_aborted


async def test_a_paused_call_waits_for_its_reader_and_not_for_its_target():
    call, sink, connection, transport, _ = begin_warm()

    receive(connection, STREAM)
    call.pause()
    assert not transport.is_reading
    await asyncio.sleep(500)
    assert sink.error is None
    call.resume()
    await asyncio.sleep(0)
    assert transport.is_reading
    await sink.finished(1_000)

    assert seconds_passed() == pytest.approx(530)


async def test_a_call_that_is_paused_before_it_has_a_connection_gets_a_paused_one():
    connection, transport = open_connection()

    call, _ = begin(FakeOrigin(connection))
    call.pause()
    await turn_loop()

    assert not transport.is_reading


async def test_an_answer_in_one_piece_may_take_as_long_as_it_takes():
    _, sink, connection, _, _ = begin_warm(waits_for_first_byte=False)

    await asyncio.sleep(3_000)
    assert sink.error is None
    receive(connection, WHOLE)

    assert sink.words[-1] == "end"


async def test_no_timer_outlives_the_answer():
    _, sink, connection, _, _ = begin_warm()

    receive(connection, STREAM + chunk(b"a"))
    receive(connection, LAST)
    await asyncio.sleep(3_000)

    assert sink.words == ["feed_from", "start", "write", "end"]


async def test_cancelling_closes_the_connection_and_the_sink_hears_nothing_more():
    call, sink, connection, transport, origin = begin_warm()
    receive(connection, STREAM)

    call.cancel()
    connection.connection_lost(None)
    await asyncio.sleep(3_000)

    assert transport.is_aborted
    assert sink.words == ["feed_from", "start"]
    assert origin.given_back == []


@pytest.mark.parametrize("fails", [True, False])
async def test_a_call_that_is_cancelled_while_it_connects_hears_nothing_more_and_the_connection_is_kept(fails):
    connection, _ = open_connection()
    origin = FakeOrigin("no connection" if fails else connection)
    origin.may_connect.clear()
    call, sink = begin(origin)
    await turn_loop()

    call.cancel()
    origin.may_connect.set()
    await turn_loop()

    assert sink.words == ["feed_from"]
    assert origin.given_back == ([] if fails else [connection])


async def test_what_is_not_an_answer_is_told_with_its_reason():
    _, sink, connection, _, _ = begin_warm()

    receive(connection, b"HTTP/1.1 042 X\r\n\r\n")

    assert isinstance(sink.error, UpstreamMalformed)
    assert sink.error.message == 'target "spark" sent an invalid answer: invalid status line'


async def test_a_prepared_call_is_sent_any_number_of_times_each_with_its_own_length_and_headers():
    connection, transport = open_connection()
    origin = FakeOrigin(warm=[connection])
    prepared = PreparedCall(origin, make_request(), b"POST / HTTP/1.1\r\n")

    for body, headers in ((b"{}", ()), (b"[1]", (("x-a", "1"), ("x-b", "\xe9\u2014")))):
        sink = RecordingSink()
        prepared.open(body, sink, headers)
        receive(connection, WHOLE)
        origin.warm = origin.given_back
        assert sink.words[-1] == "end"

    first = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    assert transport.written == first + b"POST / HTTP/1.1\r\ncontent-length: 3\r\nx-a: 1\r\nx-b: \xe9?\r\n\r\n[1]"


@pytest.mark.parametrize("name", ["x-a: 1\r\nauthorization", "x a", "x-a\n", "", "x-\xe9", "x:a"])
async def test_a_header_whose_name_is_no_token_is_refused_and_nothing_is_sent(name):
    connection, transport = open_connection()
    prepared = PreparedCall(FakeOrigin(warm=[connection]), make_request(), b"POST / HTTP/1.1\r\n")

    with pytest.raises(BadRequest, match="not a valid header name"):
        prepared.open(b"{}", RecordingSink(), ((name, "1"),))

    assert transport.written == b""


@pytest.mark.parametrize("value", ["1\r\nx-b: 2", "1\n", "\r", "a\x00", "\x7f"])
async def test_a_header_value_with_a_control_character_is_refused_and_nothing_is_sent(value):
    connection, transport = open_connection()
    prepared = PreparedCall(FakeOrigin(warm=[connection]), make_request(), b"POST / HTTP/1.1\r\n")

    with pytest.raises(BadRequest, match="header x-a: its value has a control character"):
        prepared.open(b"{}", RecordingSink(), (("x-a", value),))

    assert transport.written == b""


async def test_a_prepared_call_shows_nothing_of_the_key_in_its_head():
    prepared = PreparedCall(FakeOrigin(), make_request(), b"POST / HTTP/1.1\r\nauthorization: Bearer key-1\r\n")

    assert "key-1" not in f"{prepared!r} {prepared} {prepared.open(b'', RecordingSink())!r}"


class LateOrigin(FakeOrigin):
    """Sends over a warm connection only when the test says so, as others may be sent first."""

    def __init__(self, *fresh, warm) -> None:
        super().__init__(*fresh, warm=warm)
        self.outbox = Outbox()
        self.outbox.put(str, "what another sends")
        self.later = self.outbox.empty


async def test_a_call_that_was_cut_off_before_its_turn_came_gives_its_connection_back_unused():
    connection, transport = open_connection()
    origin = LateOrigin(warm=[connection])
    call, _ = begin(origin)

    call.cancel()
    origin.later()

    assert (transport.written, origin.given_back, transport.is_aborted) == (b"", [connection], False)


async def test_a_warm_connection_that_was_lost_before_its_turn_came_is_replaced_by_a_fresh_one():
    (warm, _), (fresh, transport) = open_connection(), open_connection()
    origin = LateOrigin(fresh, warm=[warm])
    _, sink = begin(origin)

    receive(warm, b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
    origin.later()
    await turn_loop()
    receive(fresh, WHOLE)

    assert transport.written.endswith(b"{}")
    assert (sink.status, origin.dialled) == (200, 1)


async def test_a_caller_that_reads_slowly_before_its_turn_came_still_pauses_the_target():
    connection, transport = open_connection()
    origin = LateOrigin(warm=[connection])
    call, _ = begin(origin)

    call.pause()
    origin.later()

    assert transport.written
    assert not transport.is_reading
