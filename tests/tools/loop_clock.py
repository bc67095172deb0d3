"""An event loop whose clock jumps to the next timer as soon as nothing else is ready: an hour of timeouts takes no time.

A test asks for it by name, and reads time from the loop:

    from tests.tools.loop_clock import jumping_clock, seconds_passed

    @jumping_clock
    async def test_a_wait_of_an_hour_ends_with_its_hour():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3_600)

        assert seconds_passed() == 3_600

A module whose async tests all want it says `pytestmark = pytest.mark.jumping_clock` instead (see tests/conftest.py).

Code under test must take its time from the loop (`loop.time()`, `call_later`, `asyncio.timeout`, `asyncio.sleep`), or be given
`loop.time` as its clock. Pure loop work only: with a socket in flight, "nothing is ready" may mean that the kernel is not done,
and the clock would run ahead of it. Work in a thread is waited for: the clock stands while an executor holds a job.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

_STUCK_SECONDS = 5.0
"""Real time without any timer, callback or finished thread."""


class StuckLoop(AssertionError):
    """Everything waits, and no timer will end the wait."""


class _Jumping(selectors.DefaultSelector):
    loop: "JumpingLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.loop.jobs:  # a thread wakes the loop through its own socket, the one event to wait for
            ready = super().select(_STUCK_SECONDS)
            if not ready:
                raise StuckLoop(f"a thread did not come back within {_STUCK_SECONDS:g} s")
            return ready
        if timeout is None:
            raise StuckLoop("every task waits, and no timer is set that could wake one")
        self.loop.jump(timeout)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock that begins at 0 and moves only when nothing is ready."""

    max_jumps = 1_000_000
    """More timers than any test sets: a heartbeat alone would keep a loop jumping for ever."""

    def __init__(self) -> None:
        self.jobs = 0
        self._now, self._jumps = 0.0, 0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)
        # asyncio runs what is due within this. Its nanosecond is lost in a float of a year's seconds.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._jumps += 1
        if self._jumps > self.max_jumps:
            raise StuckLoop(f"only timers have run, {self.max_jumps} of them")
        # Straight to the timer's own time: sums of differences would miss it.
        timers = self._scheduled  # type: ignore[attr-defined]  # a heap, whose first timer asyncio has found not to be cancelled
        self._now = max(self._now, timers[0].when()) if timers else self._now + seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":  # type: ignore[override]
        self.jobs += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._end_job)
        return future

    async def shutdown_default_executor(self, *given: Any) -> None:
        self.jobs += 1  # a separate thread waits for the executor's
        await super().shutdown_default_executor(*given)
        self.jobs -= 1

    def _end_job(self, _: object) -> None:
        self.jobs -= 1


def jumping_clock(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop with a jumping clock. Fixtures must not hold another loop."""

    @functools.wraps(test)
    def run(*args: Any, **given: Any) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **given))

    return run


def seconds_passed() -> float:
    return asyncio.get_running_loop().time()
