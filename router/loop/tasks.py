"""Tasks that run next to a request. A task without a reference may be collected while it runs, so these are held."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from router.contract.exchange import Arrival
from router.contract.request import RequestView

HEAVY_BYTES, _HEAVY_ITEMS = 1 << 19, 2_000
"""A body of more bytes is read in a thread, and so is what walks through a request of as many, or of more items."""
_LIGHT_BYTES = 1 << 16
"""A body of no more bytes is light, however many items it has."""
_P = ParamSpec("_P")
_R = TypeVar("_R", Arrival, RequestView)
_T = TypeVar("_T")
_beside = ThreadPoolExecutor(1, "beside")
"""One thread alone: the loop waits for its turn behind every thread that works, five milliseconds for each."""

_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, None], *, name: str, loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Task[None]:
    """Start a task and hold it until it ends. Give the running loop if it is known: to ask for it costs a system call."""
    task = (loop or asyncio.get_running_loop()).create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def spawn_started(
    work: Coroutine[Any, Any, None], *, name: str, loop: asyncio.AbstractEventLoop | None = None
) -> asyncio.Task[None] | None:
    """Run work at once up to where it first waits, and spawn the rest; None if it never waited.

    What Python 3.12 calls an eager task: whoever asks for something waits for no turn of the loop.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    rest: Any = _Started(work, waits_for)  # by its four methods a coroutine
    return spawn(rest, name=name, loop=loop)


class _Started(Struct, eq=False):
    """The rest of work that waits already. Only the first step differs: it tells the loop what is waited for.

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


def is_heavy(request: Arrival | RequestView) -> bool:
    """Whether a request has so much in it that to walk through it would hold the loop up for all others."""
    return len(request.raw) > _LIGHT_BYTES and (
        len(request.raw) > HEAVY_BYTES or (isinstance(request, RequestView) and len(request.conversation.items) > _HEAVY_ITEMS)
    )


async def run_in_thread(work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
    """Do work on a heavy request in a thread, from which the loop takes its turns. What it does must be pure, or safe there."""
    return await asyncio.get_running_loop().run_in_executor(_beside, lambda: work(*given, **named))


async def off_loop(work: Callable[[_R], _T], request: _R) -> _T:
    """Do pure work on a request: at once, or in a thread where the request is heavy."""
    if len(request.raw) > _LIGHT_BYTES and is_heavy(request):
        return await run_in_thread(work, request)
    return work(request)


async def stop_all(within_seconds: float) -> None:
    """Cancel what still runs and wait for it to settle, so that nothing is lost when the router shuts down."""
    running = [task for task in _running if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=within_seconds)
