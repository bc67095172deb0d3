"""The decision alone, by size of body: bytes in, `Decision` out, on the road's own code."""

import asyncio
import tempfile
import time
from pathlib import Path

from router.config.load import check_config
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.wiring.build import build_house, known_names
from tests.bench.load import body_of

CONFIG = """
tiers:
  fast: {targets: [{name: quick, adapter: simulated}]}
  deep: {targets: [{name: thorough, adapter: simulated, window_tokens: 400000}]}
"""
RUNS = 300


def decision_times() -> dict[str, float]:
    """The 99th percentile in milliseconds, for bodies of 4, 100 and 500 KB."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        built = build_house(check_config(CONFIG, "bench", Path(folder), known_names()), with_ledger=False)
        found = {}
        for size, name in ((4_000, "4kb"), (100_000, "100kb"), (500_000, "500kb")):
            arrival = Arrival("req_bench", Dialect.CHAT, Operation.CREATE, {}, body_of(size))
            times = []
            for _ in range(RUNS + 20):
                began = time.perf_counter()
                await built.house.decide(arrival)
                times.append(time.perf_counter() - began)
            found[f"decision_ms_{name}_p99"] = sorted(times[20:])[int(RUNS * 0.99) - 1] * 1e3
        built.house.state.counter.close()
    return found
