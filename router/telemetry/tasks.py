"""Tasks that run beside a request. A task that nobody holds may be collected while it runs, so these are held."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Start a task and hold it until it ends."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task
