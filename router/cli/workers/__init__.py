"""`tandem serve --workers`. A single worker loads nothing else of this folder."""

import argparse
import math
import os
from pathlib import Path
from typing import Literal

from router.cli.common import whole_number_between

AUTO: Literal["auto"] = "auto"
_MAX_WORKERS = 256
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""A container's limit: microseconds of each period, or `max`."""


def read_worker_count(text: str) -> int | Literal["auto"]:
    if text == AUTO:
        return AUTO
    try:
        return whole_number_between(1, _MAX_WORKERS)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or auto") from error


def count_workers(asked: int | Literal["auto"]) -> int:
    return count_cores() if asked == AUTO else asked


def count_cores(limit: Path = _CPU_LIMIT) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        share, period = limit.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(share) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):
        return cores
