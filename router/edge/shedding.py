"""Refuses new requests while the process exceeds `limits.max_memory_mb`, measured twice a second."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from router.edge.admission import Admission
from router.loop.memory import give_back
from router.telemetry import events

_RECOVERED = 0.9
"""Fraction of the limit below which requests are accepted again, to prevent flapping."""
_GIVE_BACK_SECONDS = 5.0
_RUSAGE_INFO_V0, _RUSAGE_WORDS, _RESIDENT_WORD = 0, 12, 8
_MIB = 1 << 20


class MemoryWatch:
    """Measures the process's memory and makes admission refuse requests while it is over the limit."""

    def __init__(
        self,
        admission: Admission,
        *,
        measure: Callable[[], int | None] | None = None,
        give_back: Callable[[], None] = give_back,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admission, self._measure = admission, measure or read_resident_bytes
        self._give_back, self._clock = give_back, clock
        self._gave_back_at = -_GIVE_BACK_SECONDS

    async def look(self) -> None:
        """Measure, then shed or readmit. Call this every half second."""
        admission = self._admission
        limit = admission.limits.max_memory_mb
        if limit is None:
            admission.readmit()  # a reload may have removed the limit
            return
        used = self._measure() or 0
        if admission.is_shedding or used > limit * _MIB:
            used = await self._reduce(used)
        if used > limit * _MIB and not admission.is_shedding:
            admission.shed()
            events.memory_exceeded(used_mb=used // _MIB, limit_mb=limit)
        elif admission.is_shedding and used < _RECOVERED * limit * _MIB:
            admission.readmit()
            events.memory_recovered(used_mb=used // _MIB, limit_mb=limit)

    async def _reduce(self, used: int) -> int:
        """Return free memory to the system. Not at every check: the collector scans everything."""
        if self._clock() - self._gave_back_at < _GIVE_BACK_SECONDS:
            return used
        await asyncio.get_running_loop().run_in_executor(None, self._give_back)
        self._gave_back_at = self._clock()
        return self._measure() or 0


def read_resident_bytes() -> int | None:
    """Resident memory of this process; None where the system does not report it."""
    if sys.platform == "darwin":
        return _read_on_macos()
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _read_on_macos() -> int | None:
    """Read `proc_pid_rusage`: Python's `resource` has only the peak."""
    words = (ctypes.c_uint64 * _RUSAGE_WORDS)()
    with suppress(OSError, AttributeError):
        if ctypes.CDLL(None).proc_pid_rusage(os.getpid(), _RUSAGE_INFO_V0, ctypes.byref(words)) == 0:
            return int(words[_RESIDENT_WORD])
    return None
