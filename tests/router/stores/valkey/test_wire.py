"""One connection, apart from its link."""

import asyncio

import pytest

pytest.importorskip("hiredis")

from router.stores.valkey.wire import Away, Refused, Wire
from tests.tools.loop_clock import jumping_clock, seconds_passed


class Transport:
    """Remembers what was written."""

    def __init__(self):
        self.written, self.is_aborted = b"", False

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_aborted = True


def connected():
    lost, heard = [], []
    wire, transport = Wire(5.0, lambda *message: heard.append(message), lost.append), Transport()
    wire.connection_made(transport)
    return wire, transport, lost, heard


async def test_an_answer_in_pieces_is_one_answer():
    wire, transport, _, _ = connected()
    asked = wire.send("GET", "a")
    assert transport.written == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"

    for piece in (b"$5\r", b"\nhe", b"llo\r\n"):
        wire.data_received(piece)
    assert await asked == b"hello"


async def test_a_message_between_answers_is_heard_and_answers_nobody():
    wire, _, _, heard = connected()
    asked = wire.send("GET", "a")

    wire.data_received(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nword\r\n:1\r\n")
    assert (await asked, heard) == (1, [(b"c", b"word")])


async def test_a_subscription_is_answered_as_any_command_also_where_it_is_refused():
    wire, _, _, heard = connected()
    asked = [wire.send("SUBSCRIBE", "a"), wire.send("SUBSCRIBE", "b"), wire.send("PING")]

    wire.data_received(b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n-NOPERM no\r\n+PONG\r\n")
    one, other, pong = await asyncio.gather(*asked, return_exceptions=True)

    assert (one, pong, heard) == ([b"subscribe", b"a", 1], b"PONG", [])
    assert isinstance(other, Refused)


async def test_an_answer_that_nobody_asked_for_ends_the_connection():
    wire, transport, lost, _ = connected()

    wire.data_received(b":1\r\n")
    assert (transport.is_aborted, lost) == (True, ["the server answered what nobody asked"])


async def test_who_leaves_before_the_answer_does_not_shift_the_others():
    wire, _, _, _ = connected()
    left, asked = wire.send("GET", "a"), wire.send("GET", "b")
    left.cancel()

    wire.data_received(b":1\r\n:2\r\n")
    assert await asked == 2


async def test_after_its_end_a_connection_takes_nothing():
    wire, transport, lost, _ = connected()
    asked = wire.send("GET", "a")
    wire.connection_lost(None)
    wire.connection_lost(None)

    again = wire.send("GET", "b")
    assert [type(error) for error in await asyncio.gather(asked, again, return_exceptions=True)] == [Away, Away]
    assert lost == ["the connection was closed"]
    assert b"b" not in transport.written
    assert not wire.is_open


@jumping_clock
async def test_an_answer_that_arrived_while_the_process_stood_still_is_read_before_the_connection_is_given_up():
    wire, _, lost, _ = connected()
    asked = wire.send("GET", "a")
    await asyncio.sleep(5.001)  # its time is over, and it is looked for once more

    wire.data_received(b":1\r\n")
    assert (await asked, lost) == (1, [])

    with pytest.raises(Away):
        await wire.send("GET", "b")
    assert 10.0 < seconds_passed() < 10.1
    assert lost == ["the server did not answer in time"]
