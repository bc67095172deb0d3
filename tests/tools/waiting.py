"""Waits for a condition, or for all that is ready. `tests/test_suite.py` finds other sleeps."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def later(work: Awaitable[_T]) -> "asyncio.Future[_T]":
    """Begin work whose task the test holds and awaits. Product tasks are held by `spawn`."""
    return asyncio.ensure_future(work)  # noqa: TID251  the caller holds it


async def until(is_so: Callable[[], object], seconds: float = 30.0) -> None:
    """Return once `is_so`, which may be awaitable; fail if it never is."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (await so if inspect.isawaitable(so := is_so()) else so):
        assert asyncio.get_running_loop().time() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


async def by_the_clock(seconds: float) -> None:
    """Let real time pass where time is the subject: a peer's pace, or a limit that must run out.

    A longer wait must change nothing. To look at something afterwards, use `until`.
    """
    await asyncio.sleep(seconds)


async def some_turns(count: int = 200) -> None:
    """Let the loop turn until all that is ready is done, to show that nothing more happens."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_steady(value: Callable[[], object], seconds: float = 30.0) -> None:
    """Return once a value stops changing; fail if it never does."""
    deadline = asyncio.get_running_loop().time() + seconds
    before: object = object()
    while before != value():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to rest"
        before = value()
        await some_turns()


def at_once(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine returns that must not suspend: no task is switched for it."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return returned.value
    coroutine.close()
    raise AssertionError("it waits for something")
