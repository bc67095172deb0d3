"""Tasks that run next to a request. A task without a reference may be collected while it runs, so these are held."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from msgspec import Struct

Result = TypeVar("Result")
_running: set[asyncio.Task[Any]] = set()


def spawn(
    work: Coroutine[Any, Any, Result], *, name: str, loop: asyncio.AbstractEventLoop | None = None
) -> asyncio.Task[Result]:
    """Start a task and hold it until it ends. Give the running loop if it is known: to ask for it costs a system call."""
    task = (loop or asyncio.get_running_loop()).create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def spawn_started(
    work: Coroutine[Any, Any, None], *, name: str, loop: asyncio.AbstractEventLoop | None = None
) -> asyncio.Task[None] | None:
    """Run work at once up to where it first waits, and spawn the rest; None if it never waited.

    Python 3.12 calls that an eager task: a request need not wait for the next turn of the event loop.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    rest: Any = _Started(work, waits_for)  # by its four methods a coroutine
    task: asyncio.Task[None] = (loop or asyncio.get_running_loop()).create_task(rest, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


class _Started(Struct, eq=False):
    """The rest of work that waits already. Only the first step differs: it returns what the work waits for.

    Not a generator: one that is cancelled before its first step never runs, and the work would not hear of it.
    """

    _work: Coroutine[Any, Any, None]
    _waits_for: Any
    _is_told: bool = False

    def send(self, value: Any) -> Any:
        if self._is_told:
            return self._work.send(value)
        self._is_told = True
        return self._waits_for

    def throw(self, *error: Any) -> Any:
        self._is_told = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()
