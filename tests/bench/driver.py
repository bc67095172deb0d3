"""A process that puts load on a port and prints what it took, as JSON: `python -m tests.bench.driver KIND PORT SIZE COUNT SECONDS`."""

import asyncio
import json
import sys
import time
from itertools import count as count_from
from itertools import repeat

from tests.bench.load import ask, body_of, listen, request_of
from tests.bench.once import ONCE
from tests.tools.waiting import later


async def main(kind: str, port: int, size: int, count: int, seconds: float, dialect: str = "chat") -> dict:
    numbers: list[float] = []
    if kind == "repeated" or kind in ONCE:
        request = request_of(body_of(size))
        # Numbered by the clock: the driver before this one has sent its sessions to the same router, which may remember them.
        sessions = count_from(time.time_ns() // 1_000_000 % 10**9)
        callers = [ONCE[kind](sessions) if kind in ONCE else repeat(request) for _ in range(count)]
        until = time.monotonic() + seconds
        await asyncio.gather(*(ask(port, requests, until, numbers) for requests in callers))
        return {"requests": len(numbers), "latencies": sorted(numbers)}
    firsts: list[float] = []
    request = request_of(body_of(size, tokens=int(seconds * 1000), dialect=dialect), dialect)
    if kind == "first":
        for _ in range(count):
            await listen(port, request_of(body_of(size, tokens=2)), numbers.append, firsts)
    else:
        streams = []
        for _ in range(count):
            streams.append(later(listen(port, request, numbers.append, firsts)))
            await asyncio.sleep(0.4 / count)
        await asyncio.gather(*streams)
    return {"tokens": len(numbers), "lags": sorted(numbers), "firsts": sorted(firsts)}


if __name__ == "__main__":
    kind, port, size, count, seconds = sys.argv[1], *map(float, sys.argv[2:6])
    dialect = sys.argv[6] if len(sys.argv) > 6 else "chat"
    try:
        import uvloop

        found = uvloop.run(main(kind, int(port), int(size), int(count), seconds, dialect))
    except ImportError:
        found = asyncio.run(main(kind, int(port), int(size), int(count), seconds, dialect))
    for name in ("latencies", "lags", "firsts"):
        values = found.pop(name, None)
        if values:
            found[name] = {str(share): values[min(len(values) - 1, int(len(values) * share))] for share in (0.5, 0.9, 0.99)}
    print(json.dumps(found))
