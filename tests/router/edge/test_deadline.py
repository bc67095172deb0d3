"""One timer whose deadline moves."""

import asyncio

import pytest

from router.contract.clock import Clock
from router.edge.deadline import DeadlineTimer


@pytest.fixture
async def loop():
    return asyncio.get_running_loop()


@pytest.fixture
async def timer(loop):
    return DeadlineTimer(loop)


@pytest.fixture
def calls() -> list[str]:
    return []


async def test_nothing_is_called_before_the_deadline_and_once_after_it(loop, timer, calls):
    timer.set(10, lambda: calls.append("late"))

    await loop.advance(9.9)
    before = list(calls)
    await loop.advance(0.2)
    await loop.advance(100)

    assert (before, calls) == ([], ["late"])


async def test_a_deadline_that_moves_on_is_called_at_its_new_time(loop, timer, calls):
    timer.set(10, lambda: calls.append("first"))
    await loop.advance(8)
    timer.set(10, lambda: calls.append("second"))

    await loop.advance(3)
    at_the_old_time = list(calls)
    await loop.advance(7.1)

    assert (at_the_old_time, calls) == ([], ["second"])


async def test_a_deadline_that_comes_nearer_is_not_called_at_its_old_time(loop, timer, calls):
    timer.set(75, lambda: calls.append("far"))
    timer.set(2, lambda: calls.append("near"))

    await loop.advance(2.1)
    assert calls == ["near"]
    await loop.advance(100)

    assert calls == ["near"]


async def test_moving_a_deadline_on_makes_no_new_timer(loop, timer, monkeypatch):
    made = []
    call_at = loop.call_at
    monkeypatch.setattr(loop, "call_at", lambda *given, **more: made.append(given) or call_at(*given, **more))

    for _ in range(100):
        timer.set(10, lambda: None)
        timer.clear()

    assert len(made) == 1


async def test_a_cleared_deadline_is_not_called(loop, timer, calls):
    timer.set(1, lambda: calls.append("late"))
    timer.clear()

    await loop.advance(10)

    assert calls == []
    assert timer.on_deadline is None


async def test_a_cancelled_timer_leaves_nothing_in_the_loop(loop, timer, calls):
    timer.set(1, lambda: calls.append("late"))
    timer.cancel()

    await loop.advance(10)

    assert calls == []


async def test_what_is_called_may_set_the_next_deadline(loop, timer, calls):
    def again() -> None:
        calls.append("again")
        timer.set(5, again)

    timer.set(5, again)
    for _ in range(3):
        await loop.advance(5)

    timer.cancel()
    assert calls == ["again"] * 3


async def test_the_seconds_that_are_left_shrink_to_none(loop, timer):
    timer.set(10, lambda: None)

    await loop.advance(4)
    left = timer.seconds_left
    await loop.advance(20)
    timer.set(0, lambda: None)

    assert (left, timer.seconds_left) == (6, 0)
    timer.cancel()


async def test_a_deadline_that_passed_while_the_process_was_paused_is_judged_after_what_waited_was_read(
    loop, timer, calls, monkeypatch
):
    clock = Clock(monotonic=loop.time)
    monkeypatch.setattr("router.edge.deadline.CLOCK", clock)
    timer.set(10, lambda: calls.append("late"))
    clock.expect(loop.time() + 1)

    await loop.advance(60)
    at_the_end_of_the_pause = list(calls)
    clock.expect(loop.time() + 10)
    await loop.advance(6)

    assert (at_the_end_of_the_pause, calls) == ([], ["late"])
