"""Measures work without seconds: calls, or CPU time of one size against another.

A loaded machine stretches wall time without bound but CPU time little, and both sizes alike. So tests state a ratio: eight
times the input may take eight times the CPU, with a margin, not sixty-four times.
"""

import sys
import time
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """Function calls, including those of C."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def cpu_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of this thread over several runs."""
    return min(_run(work) for _ in range(repeats))


def _run(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def cost_ratio(large: Callable[[], object], small: Callable[[], object], repeats: int = 5) -> float:
    """CPU of `large` relative to `small`. Runs alternate, so that a busy moment affects both."""
    pairs = [(_run(large), _run(small)) for _ in range(repeats)]
    return min(pair[0] for pair in pairs) / max(min(pair[1] for pair in pairs), 1e-6)
