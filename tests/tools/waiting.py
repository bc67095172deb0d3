"""Waiting for something to become so, or for everything that is ready to be done: never for time to pass."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")


def later(work: Awaitable[_T]) -> "asyncio.Future[_T]":
    """Begin work whose task the test itself holds and awaits: a product's tasks are held by `spawn`."""
    return asyncio.ensure_future(work)  # noqa: TID251  whoever calls this holds it


async def until(is_so: Callable[[], object], seconds: float = 30.0) -> None:
    """Return as soon as something is so; fail if it never is."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not is_so():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


async def some_turns(count: int = 200) -> None:
    """Let the loop turn, so that whatever is ready is done: for saying that nothing more happens."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_steady(value: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as a value no longer changes while the loop turns; fail if it never stops."""
    deadline = asyncio.get_running_loop().time() + seconds
    before: object = object()
    while before != value():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to rest"
        before = value()
        await some_turns()
