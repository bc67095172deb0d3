"""The watch over the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.loop.stalls import STALL_SECONDS, LoopWatch
from router.loop.tasks import spawn
from tests.tools.waiting import until


class Holding:
    """Holds the loop until the watch's thread has seen it, as a long computation would."""

    def __init__(self, watch: LoopWatch) -> None:
        self._watch = watch

    async def hold(self) -> None:
        self.hold_in_a_callback()

    def hold_in_a_callback(self) -> None:
        before, deadline = self._watch._seen, time.monotonic() + 30
        while self._watch._seen is before or time.monotonic() - self._watch._due < STALL_SECONDS:
            assert time.monotonic() < deadline
            time.sleep(0.001)  # not asyncio's: the loop is held up


@asynccontextmanager
async def watching() -> AsyncIterator[LoopWatch]:
    """Not a fixture: that is run from elsewhere, and the watch takes the way from the start of the loop for granted."""
    watch = LoopWatch(start_seconds=0.0)
    watch.start()
    await until(lambda: watch._depth)
    try:
        yield watch
    finally:
        watch.close()


def stalls_of(watch: LoopWatch) -> float:
    return sum(sum(row[:-1]) for row in watch.stalls.rows.values())


async def test_a_step_that_holds_the_loop_is_counted_and_logged_with_its_task_and_line(listen):
    read = listen()
    async with watching() as watch:
        await spawn(Holding(watch).hold(), name="hold it")
        await until(lambda: stalls_of(watch))

    line = next(line for line in read() if line["event"] == "loop.stalled")
    assert line["seconds"] >= STALL_SECONDS
    assert line["step"] == "Holding.hold (hold it)"
    assert line["where"].startswith("test_stalls.py:")
    assert watch.stalls.rows[()][-1] >= STALL_SECONDS


async def test_a_callback_is_named_too(listen):
    read = listen()
    async with watching() as watch:
        asyncio.get_running_loop().call_soon(Holding(watch).hold_in_a_callback)
        await until(lambda: stalls_of(watch))

    assert any(line["event"] == "loop.stalled" and line["step"] == "Holding.hold_in_a_callback" for line in read())


async def test_only_the_first_of_a_minute_is_logged(listen):
    read = listen()
    async with watching() as watch:
        for count in (1, 2, 3):
            await spawn(Holding(watch).hold(), name="hold it")
            await until(lambda count=count: stalls_of(watch) >= count)

    assert [line["event"] for line in read()] == ["loop.stalled"]


async def test_a_closed_watch_has_no_timer_and_no_thread():
    async with watching() as watch:
        pass

    assert watch._timer.cancelled()
    assert watch._is_closed.is_set()
