"""Responses that wait until a place takes them."""

import asyncio

import pytest

from router.contract.stores import StoreUnusable
from router.stores.backlog import Backlog
from tests.tools.kept import ANN, make_response

pytestmark = pytest.mark.jumping_clock


class Place:
    """Refuses some responses, or all."""

    def __init__(self) -> None:
        self.taken, self.refuses = [], set()
        self.tried = asyncio.Event()

    async def take(self, response) -> None:
        self.tried.set()
        if self.refuses == "all" or response.id in self.refuses:
            raise StoreUnusable("full")
        self.taken.append(response.id)


@pytest.fixture
def place():
    return Place()


async def test_what_was_refused_is_taken_once_there_is_room(place):
    backlog, place.refuses = Backlog(place.take), "all"
    for number in range(3):
        backlog.add(make_response(f"resp_{number}"))
    await place.tried.wait()

    place.refuses = set()
    place.tried.clear()
    await place.tried.wait()
    await backlog.close()

    assert (sorted(place.taken), len(backlog)) == (["resp_0", "resp_1", "resp_2"], 0)


async def test_one_that_is_never_taken_does_not_keep_others_waiting(place):
    backlog, place.refuses = Backlog(place.take), {"resp_0"}
    for number in range(3):
        backlog.add(make_response(f"resp_{number}"))

    while len(backlog) > 1:
        place.tried.clear()
        await place.tried.wait()

    assert place.taken == ["resp_1", "resp_2"]
    await backlog.close()


async def test_the_oldest_are_dropped_when_too_much_waits_and_that_is_said(place):
    dropped = []
    size = len(make_response("resp_0").raw)
    backlog = Backlog(place.take, lambda: dropped.append(1), max_bytes=2 * size)

    for number in range(3):
        backlog.add(make_response(f"resp_{number}"))
    await backlog.close()

    assert (place.taken, dropped) == (["resp_1", "resp_2"], [1])


async def test_a_response_that_is_removed_or_replaced_is_not_written(place):
    backlog = Backlog(place.take)
    for name in ("resp_1", "resp_1", "resp_2"):
        backlog.add(make_response(name))

    backlog.remove((ANN, "resp_2"))
    await backlog.close()

    assert place.taken == ["resp_1"]
