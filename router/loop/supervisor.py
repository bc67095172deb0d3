"""Tasks that must outlive a defect: beats, watches, runners. One that raises is reported, counted and started again."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from router.loop.tasks import spawn
from router.telemetry import events

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
restarts: Counter[str] = Counter()
"""How often each task of this process was started again, by its name. Names come from a closed set."""


def supervise(work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> asyncio.Task[None]:
    """Start work that ends only by itself or when it is cancelled. After an exception it begins again.

    The pause before that doubles from one second to a minute, and is short again once the work has run for a minute.
    """
    return spawn(_run(work, name), name=name)


async def _run(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
    while True:
        began = loop.time()
        try:
            await work()
        except Exception as error:  # noqa: BLE001  nobody awaits this task: its silent end would be found out much later
            if loop.time() - began >= LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            restarts[name] += 1
            events.task_failed(task=name, error=error, again_in_seconds=pause)
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
