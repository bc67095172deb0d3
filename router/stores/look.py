"""What one look at a store that routers share shows."""

import time
from collections.abc import Awaitable, Callable
from statistics import median

_TRIPS = 5


async def time_trips(trip: Callable[[], Awaitable[object]]) -> float:
    """How long a trip to a store takes, in milliseconds: the median of a few."""
    took = []
    for _ in range(_TRIPS):
        began = time.perf_counter()
        await trip()
        took.append((time.perf_counter() - began) * 1_000)
    return median(took)
