"""Work that starts at once, and goes on as a task from where it first waits."""

import asyncio

import pytest

from router.loop.tasks import spawn_started


async def test_work_that_never_waits_is_done_at_once_and_needs_no_task():
    done = []

    async def work() -> None:
        done.append(True)

    assert spawn_started(work(), name="quick") is None
    assert done == [True]


async def test_work_runs_up_to_its_first_wait_before_anything_else_does():
    steps = []

    async def work(future: asyncio.Future) -> None:
        steps.append("began")
        steps.append(await future)
        await asyncio.sleep(0)
        steps.append(await asyncio.wait_for(asyncio.sleep(0, "later"), 30))

    future = asyncio.get_running_loop().create_future()
    task = spawn_started(work(future), name="waits")
    assert steps == ["began"]
    future.set_result("came")
    await task

    assert steps == ["began", "came", "later"]


async def test_a_cancellation_reaches_the_work_which_may_clean_up():
    heard = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            heard.append("cancelled")
            await asyncio.sleep(0)
            heard.append("cleaned up")
            raise

    task = spawn_started(work(), name="cancelled")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert heard == ["cancelled", "cleaned up"]


async def test_work_that_is_cancelled_before_the_loop_turns_hears_of_it():
    heard = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            heard.append("left")

    task = spawn_started(work(), name="cancelled at once")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert heard == ["left"]


async def test_an_error_of_what_is_waited_for_and_of_the_work_itself_come_through():
    async def work(future: asyncio.Future) -> None:
        with pytest.raises(OSError, match="far"):
            await future
        raise ValueError("near")

    future = asyncio.get_running_loop().create_future()
    task = spawn_started(work(future), name="fails")
    future.set_exception(OSError("far"))

    with pytest.raises(ValueError, match="near"):
        await task


async def test_an_error_before_the_first_wait_is_raised_at_once():
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        spawn_started(work(), name="fails")
