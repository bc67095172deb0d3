"""Work on a request: here if it is light, in a thread if it is heavy."""

import asyncio
import threading

import pytest

from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.loop.off_loop import OffLoop
from tests.tools.values import make_view
from tests.tools.waiting import later

SHORT, LONG = [{"role": "user", "content": "x"}], [{"role": "user", "content": "x" * 600_000}]


def where(request: object, *more: int) -> tuple[bool, int]:
    """Whether this runs in a thread, and the sum of what else is given."""
    return threading.current_thread() is not threading.main_thread(), sum(more)


@pytest.mark.parametrize(
    ("messages", "is_heavy"), [(SHORT, False), (SHORT * 2_000, False), (SHORT * 2_001, True), (LONG, True)]
)
async def test_a_request_is_heavy_by_its_bytes_or_by_its_items(messages, is_heavy):
    assert await OffLoop()(where, make_view({"messages": messages}), 2, 3) == (is_heavy, 5)


@pytest.mark.parametrize(("size", "is_heavy"), [(1 << 19, False), ((1 << 19) + 1, True)])
async def test_a_body_that_is_not_read_yet_is_heavy_by_its_bytes(size, is_heavy):
    off_loop, arrival = OffLoop(), Arrival("req_1", Dialect.CHAT, Operation.CREATE, {}, b" " * size)

    assert await off_loop(where, arrival) == (is_heavy, 0)
    assert await off_loop.read(where, arrival.raw, 4) == (is_heavy, 4)
    assert off_loop.is_large(arrival.raw) is is_heavy


async def test_in_plain_mode_all_work_is_done_on_the_loop():
    off_loop, view = OffLoop(plain=True), make_view({"messages": LONG})

    assert await off_loop(where, view) == (False, 0)
    assert await off_loop(where, make_view({"messages": SHORT * 2_001})) == (False, 0)
    assert await off_loop.read(where, view.raw) == (False, 0)
    assert await off_loop.run(where, None) == (False, 0)
    assert not off_loop.is_large(view.raw)


@pytest.mark.parametrize("messages", [SHORT, LONG])
async def test_an_error_of_the_work_comes_back(messages):
    def fail(_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await OffLoop()(fail, make_view({"messages": messages}))


async def test_work_that_runs_when_it_is_closed_comes_to_its_end():
    off_loop, is_closed = OffLoop(), threading.Event()
    task = later(off_loop.run(is_closed.wait, 30))
    await asyncio.sleep(0)

    off_loop.close()
    is_closed.set()

    assert await task
