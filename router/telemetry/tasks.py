"""Tasks that run beside a request. A task that nobody holds may be collected while it runs, so these are held."""

import asyncio
from collections.abc import Coroutine
from typing import Any

STOPPING = "the router stops"
_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Start a task and hold it until it ends."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def stop_all(within_seconds: float) -> None:
    """Cancel what still runs and wait for it to settle, so that nothing is lost when the router stops."""
    running = [task for task in _running if not task.done()]
    for task in running:
        task.cancel(STOPPING)
    if running:
        await asyncio.wait(running, timeout=within_seconds)
