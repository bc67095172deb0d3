"""Tasks that must outlive a defect."""

import asyncio

import pytest

from router.loop.supervisor import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, restarts, supervise
from tests.tools.loop_clock import seconds_passed

pytestmark = pytest.mark.jumping_clock


class Failing:
    """Work that fails some times, each after running for a while, and then ends by itself."""

    def __init__(self, failures: int, runs_seconds: float = 0.0) -> None:
        self.began: list[float] = []
        self._failures, self._runs_seconds = failures, runs_seconds

    async def run(self) -> None:
        self.began.append(seconds_passed())
        await asyncio.sleep(self._runs_seconds)
        if len(self.began) <= self._failures:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a value that must not be logged")


async def test_work_that_raises_is_reported_counted_and_begun_again(listen):
    read, work, before = listen(), Failing(1), restarts["beat"]

    await supervise(work.run, name="beat")

    (line,) = read()
    assert line.pop("where").startswith("run:")
    del line["timestamp"]
    expected = {"event": "task.failed", "level": "error", "task": "beat", "kind": "UnicodeDecodeError"}
    assert line == {**expected, "again_in_seconds": FIRST_PAUSE_SECONDS}
    assert restarts["beat"] - before == 1
    assert work.began == [0, FIRST_PAUSE_SECONDS]


async def test_the_pause_doubles_up_to_a_minute(listen):
    listen()
    work = Failing(9)

    await supervise(work.run, name="beat")

    pauses = [after - before for before, after in zip(work.began, work.began[1:], strict=False)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_the_pause_is_short_again_after_work_that_ran_for_a_minute(listen):
    listen()
    work = Failing(4, LONGEST_PAUSE_SECONDS)

    await supervise(work.run, name="beat")

    assert {after - before for before, after in zip(work.began, work.began[1:], strict=False)} == {61}


async def test_cancelling_ends_it_for_good():
    work = Failing(0, 3_600)
    task = supervise(work.run, name="watch")
    await asyncio.sleep(1)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert work.began == [0]
