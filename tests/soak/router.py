"""`python -m tests.soak.router serve …`: the router as it is, which on SIGUSR1 also writes down what it holds.

Tasks and tables can only be counted from inside. The count goes to the file that `SOAK_CENSUS` names, in one step.
"""

import asyncio
import gc
import json
import os
import signal
import sys
import tracemalloc
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import Any

import router.cli.serving as serving
from router.cli import main
from router.wiring.built import Built

_DEPTH = 5
_LISTED = 25


def take_census(loop: asyncio.AbstractEventLoop, built: Built) -> dict[str, Any]:
    """What is alive now: tasks, objects, and every table of the house that has anything in it."""
    gc.collect()
    census: dict[str, Any] = {
        "tasks": sorted(task.get_name() for task in asyncio.all_tasks(loop)),
        "objects": len(gc.get_objects()),
        "running": len(built.house.state.running),
        "tables": dict(sorted(_measure(built.house.state, "", _DEPTH, set()), key=lambda row: -row[1])[:_LISTED]),
    }
    if tracemalloc.is_tracing():
        lines = tracemalloc.take_snapshot().statistics("lineno")[:_LISTED]
        census["lines"] = [f"{line.size >> 10} KiB in {line.count}: {line.traceback}" for line in lines]
    return census


def _measure(thing: object, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, int]]:
    """The sizes of the containers that can be reached over attributes."""
    if id(thing) in seen or depth == 0 or isinstance(thing, str | bytes | type):
        return
    seen.add(id(thing))
    if isinstance(thing, Sized) and not hasattr(thing, "__dict__") and not hasattr(type(thing), "__slots__"):
        yield path, len(thing)
        return
    if isinstance(thing, Sized):
        yield path, len(thing)
    names = {*getattr(thing, "__dict__", ()), *(name for kind in type(thing).__mro__ for name in _slots_of(kind))}
    for name in names:
        yield from _measure(getattr(thing, name, None), f"{path}.{name}", depth - 1, seen)


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _serve_with_census() -> int:
    real = serving.build_house

    def build_house(*given: Any, **more: Any) -> Built:
        built, loop = real(*given, **more), asyncio.get_running_loop()

        def write() -> None:
            file = Path(os.environ["SOAK_CENSUS"])
            (part := file.with_suffix(".part")).write_text(json.dumps(take_census(loop, built)))
            part.replace(file)

        loop.add_signal_handler(signal.SIGUSR1, write)
        return built

    serving.build_house = build_house
    if "SOAK_TRACE" in os.environ:
        tracemalloc.start()
    return main()


if __name__ == "__main__":
    sys.exit(_serve_with_census())
