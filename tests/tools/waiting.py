"""Waiting for something to become so, or for everything that is ready to be done. `tests/test_suite.py` finds other sleeps."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def later(work: Awaitable[_T]) -> "asyncio.Future[_T]":
    """Begin work whose task the test itself holds and awaits: a product's tasks are held by `spawn`."""
    return asyncio.ensure_future(work)  # noqa: TID251  whoever calls this holds it


async def until(is_so: Callable[[], object], seconds: float = 30.0) -> None:
    """Return as soon as something is so; fail if it never is. What is asked may be awaitable: a reply, a query."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (await so if inspect.isawaitable(so := is_so()) else so):
        assert asyncio.get_running_loop().time() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


async def by_the_clock(seconds: float) -> None:
    """Let real time pass where time is the subject: the pace of a peer, or a limit that must run out.

    A longer wait must change nothing. Where something is looked at afterwards, wait for it with `until`.
    """
    await asyncio.sleep(seconds)


async def some_turns(count: int = 200) -> None:
    """Let the loop turn, so that whatever is ready is done: for saying that nothing more happens."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_steady(value: Callable[[], object], seconds: float = 30.0) -> None:
    """Return as soon as a value no longer changes while the loop turns; fail if it never stops."""
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
