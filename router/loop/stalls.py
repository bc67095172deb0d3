"""Watches the event loop for steps that hold it up. Requests pay nothing for it.

A timer beats on the loop. A thread looks at the beats and, when one is late, at what the loop is doing, so that the log can
name it. A beat is late as well when the machine is too busy to run the process, or when that was paused: the process's clock
learns it from here, and leaps of the time of day too.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from router.contract.clock import CLOCK, Clock
from router.telemetry import events
from router.telemetry.metrics import Buckets

STALL_SECONDS = 0.05
_BEAT_SECONDS = _LATE_SECONDS = 0.025
"""Between two beats, and how late one is when the thread looks: a stall is not over then."""
_IDLE_SECONDS, _IDLE_PART = 0.25, 0.02
"""Between two beats of a loop that works for less than this part of the time: an idle machine may sleep."""
_START_SECONDS = 1.0
"""A router that starts loads what its first requests need."""
_REPORT_SECONDS = 60.0
_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopWatch:
    """Counts how long the loop was held up, and reports it once a minute at most."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        start_seconds: float = _START_SECONDS,
        process_clock: Clock = CLOCK,
    ) -> None:
        self._clock, self._start_seconds, self._process_clock = clock, start_seconds, process_clock
        self._has_leapt = False
        self.stalls = Buckets(_BOUNDS, {(): [0.0] * (len(_BOUNDS) + 2)})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread_id = self._depth = self._unreported = 0
        self._due = self._worked = 0.0
        self._pause = _BEAT_SECONDS
        self._seen: tuple[float, str, str] | None = None
        """The beat that was late, and what the loop was doing: its task or callback, and the line of code."""
        self._reported_at = -_REPORT_SECONDS
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._timer = self._loop.call_later(self._start_seconds, self._begin)
        self._process_clock.expect(self._clock() + self._start_seconds)

    def close(self) -> None:
        self._is_closed.set()
        self._process_clock.expect()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._depth = len(_list_frames(sys._getframe()))
        self._due = self._clock()
        self._beat()
        threading.Thread(target=self._look, name="watch the loop", daemon=True).start()

    def _beat(self) -> None:
        now = self._clock()
        self._process_clock.look()
        self._look_for_a_leap()
        if now - self._due >= STALL_SECONDS:
            self._note(now)
        worked = time.thread_time()
        is_idle, self._worked = worked - self._worked < _IDLE_PART * self._pause, worked
        self._pause = _IDLE_SECONDS if is_idle else _BEAT_SECONDS
        self._due = now + self._pause
        self._process_clock.expect(self._due)
        assert self._loop is not None
        self._timer = self._loop.call_later(self._pause, self._beat)

    def _look_for_a_leap(self) -> None:
        self._process_clock.trusted()
        seconds = self._process_clock.leap_seconds
        if seconds and not self._has_leapt:
            events.clock_leapt(seconds=seconds)
        self._has_leapt = bool(seconds)

    def _note(self, now: float) -> None:
        self.stalls.observe((), now - self._due)
        self._unreported += 1
        if now - self._reported_at < _REPORT_SECONDS:
            return
        _, step, where = self._seen if self._seen is not None and self._seen[0] == self._due else (0.0, "unknown", "")
        events.loop_stalled(seconds=now - self._due, step=step, where=where, stalls=self._unreported)
        self._reported_at, self._unreported = now, 0

    # In the thread.

    def _look(self) -> None:
        pause = _LATE_SECONDS
        while not self._is_closed.wait(pause):
            due, now = self._due, self._clock()
            is_new = self._seen is None or self._seen[0] != due
            if now - due >= _LATE_SECONDS and is_new and (frame := sys._current_frames().get(self._thread_id)) is not None:
                self._seen = (due, *self._describe(frame))
            pause = max(due + _LATE_SECONDS - now, _BEAT_SECONDS)

    def _describe(self, frame: FrameType) -> tuple[str, str]:
        """The step that the loop is in, with the name of its task, and the innermost line."""
        frames = _list_frames(frame)
        if len(frames) < self._depth:
            return "unknown", ""
        step, inner = frames[-self._depth].f_code, frames[0]
        name = step.co_qualname
        with suppress(RuntimeError):
            if (task := asyncio.current_task(self._loop)) is not None:
                name = f"{name} ({task.get_name()})"
        return name, f"{inner.f_code.co_filename.rpartition('/')[2]}:{inner.f_lineno}"


def _list_frames(frame: FrameType | None) -> list[FrameType]:
    """The innermost first."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames
