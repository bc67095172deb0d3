"""Writes that wait until a store takes them."""

import asyncio

import pytest

from router.contract.stores import StoreUnusable
from router.stores.outbox import Outbox
from tests.tools.kept import make_response

pytestmark = pytest.mark.jumping_clock


class Place:
    """Refuses some responses, or all."""

    def __init__(self) -> None:
        self.taken, self.refuses = [], set()
        self.tried = asyncio.Event()

    async def take(self, key, response) -> None:
        self.tried.set()
        if self.refuses == "all" or response.id in self.refuses:
            raise StoreUnusable("full")
        self.taken.append(response.id)


@pytest.fixture
def place():
    return Place()


async def test_what_was_refused_is_taken_once_there_is_room(place):
    outbox, place.refuses = Outbox(place.take), "all"
    for number in range(3):
        outbox.add(f"resp_{number}", make_response(f"resp_{number}"))
    await place.tried.wait()

    place.refuses = set()
    place.tried.clear()
    await place.tried.wait()
    await outbox.close()

    assert (sorted(place.taken), len(outbox)) == (["resp_0", "resp_1", "resp_2"], 0)


async def test_one_that_is_never_taken_does_not_keep_others_waiting(place):
    outbox, place.refuses = Outbox(place.take), {"resp_0"}
    for number in range(3):
        outbox.add(f"resp_{number}", make_response(f"resp_{number}"))

    while len(outbox) > 1:
        place.tried.clear()
        await place.tried.wait()

    assert place.taken == ["resp_1", "resp_2"]
    await outbox.close()


async def test_the_oldest_are_dropped_when_too_much_waits_and_that_is_said(place):
    dropped = []
    size = len(make_response("resp_0").raw)
    outbox = Outbox(place.take, lambda response: len(response.raw), lambda: dropped.append(1), max_bytes=2 * size)

    for number in range(3):
        outbox.add(f"resp_{number}", make_response(f"resp_{number}"))
    await outbox.close()

    assert (place.taken, dropped) == (["resp_1", "resp_2"], [1])


async def test_a_response_that_is_removed_or_replaced_is_not_written(place):
    outbox = Outbox(place.take)
    for name in ("resp_1", "resp_1", "resp_2"):
        outbox.add(name, make_response(name))

    outbox.remove("resp_2")
    await outbox.close()

    assert place.taken == ["resp_1"]


async def test_what_waits_is_tried_at_once_when_the_store_is_back(place):
    outbox, place.refuses = Outbox(place.take), "all"
    outbox.add("resp_1", make_response("resp_1"))
    await place.tried.wait()

    place.refuses = set()
    before = asyncio.get_running_loop().time()
    outbox.retry()
    place.tried.clear()
    await place.tried.wait()

    assert place.taken == ["resp_1"]
    assert asyncio.get_running_loop().time() == before
    await outbox.close()


async def test_the_late_answer_to_an_older_value_does_not_count_for_a_newer_one():
    go, written = asyncio.Event(), []

    async def write(key, value) -> None:
        await go.wait()
        written.append(value)

    outbox = Outbox(write)
    outbox.add("a", "older")
    outbox.retry()
    await asyncio.sleep(0)

    outbox.add("a", "newer")
    go.set()
    await outbox.close()

    assert written[-1] == "newer"
    assert len(outbox) == 0
