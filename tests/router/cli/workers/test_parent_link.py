"""A worker's side of the connection to its parent, with a parent that says what the test wants."""

import asyncio
import socket

import pytest

from router.cli.workers.messages import EndReport, Kind, Message, Taken, Topic, read_message, write_body, write_message
from router.cli.workers.parent_link import ParentLink
from router.config.faults import ConfigError, Fault
from router.contract.keys import make_key
from router.wiring.built import Built
from tests.tools.edge import FakeRoad
from tests.tools.waiting import until


class Pair:
    """A parent, and the other end of its connection."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.parent, self.stops, self.hurries = ParentLink(1, 2, make_key(), self._theirs), 0, 0

    async def open(self) -> None:
        def stop() -> None:
            self.stops += 1

        def hurry() -> None:
            self.hurries += 1

        await self.parent.open(Built(FakeRoad()), stop, hurry)
        self._reader, self._writer = await asyncio.open_connection(sock=self.ours)

    async def read(self) -> Message:
        return read_message(await self._reader.readline())

    def say(self, kind: Kind, topic: Topic | None = None, number: int = 0, body: bytes = b"null") -> None:
        self._writer.write(write_message(kind, topic, number, body))

    async def leave(self) -> None:
        """End as a parent does, and return when the worker has noticed."""
        self._writer.close()
        await until(lambda: self.parent.is_orphaned)
        await self._writer.wait_closed()
        self._theirs.close()

    def close(self) -> None:
        self.ours.close()
        self._theirs.close()


@pytest.fixture
async def pair():
    made = Pair()
    await made.open()
    yield made
    await made.leave()


async def test_a_group_is_ready_once_all_serve_and_stays_so_while_one_is_started_again(pair):
    assert not pair.parent.is_ready
    pair.say(Kind.GROUP, number=2)
    await until(lambda: pair.parent.is_ready)
    pair.say(Kind.GROUP, number=1)
    await until(lambda: pair.parent.describe()["serving"] == 1)

    assert pair.parent.is_ready
    assert pair.parent.describe() == {"workers": 2, "serving": 1}


async def test_a_worker_answers_that_it_is_alive(pair):
    pair.say(Kind.QUESTION, Topic.ALIVE, number=7)

    answer = await pair.read()

    assert (answer.kind, answer.topic, answer.number) == (Kind.ANSWER, Topic.ALIVE, 7)


async def test_a_reload_is_asked_of_the_parent_and_faults_come_back_as_they_were(pair):
    asked = asyncio.ensure_future(pair.parent.reload())  # noqa: TID251  awaited below
    question = await pair.read()
    refused = Taken.refused(ConfigError("config.yaml", [Fault("a", "is wrong")]))
    pair.say(Kind.OUTCOME, Topic.RELOAD, question.number, write_body({"1": Taken(), "2": refused}))

    with pytest.raises(ConfigError, match="a: is wrong"):
        await asked
    assert (question.kind, question.topic) == (Kind.ASK, Topic.RELOAD)


async def test_the_parent_s_first_word_stops_a_worker_as_its_end_does_and_the_second_hurries_it(pair):
    pair.say(Kind.STOP)
    await until(lambda: pair.stops == 1)
    pair.say(Kind.STOP)
    await until(lambda: pair.hurries == 1)

    other = Pair()
    await other.open()
    await other.leave()

    assert (pair.stops, other.stops, other.hurries) == (1, 1, 0)
    assert not pair.parent.is_orphaned


async def test_the_end_of_the_parent_during_a_stop_does_not_hurry_it():
    pair = Pair()
    await pair.open()
    pair.say(Kind.STOP)

    await pair.leave()

    assert (pair.stops, pair.hurries) == (1, 0)


def test_last_words_reach_the_parent_without_a_loop():
    pair = Pair()

    pair.parent.report_end(2, "no room")

    message = read_message(pair.ours.recv(1_000))
    assert message.kind is Kind.ENDED
    assert bytes(message.body) == write_body(EndReport(2, "no room"))
    pair.close()
