"""What a person waits for once: a start, the weights, a reading of new words. Absolute figures, with the bars they should keep.

`python -m tests.bench.costs` prints them; `measure` is for `make bench`. No test holds these: they are the machine's.
"""

import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from policies.learned import LearnedConfig, LearnedPolicy, find_weights, read_once
from tests.tools.values import ask, make_signals

ROOT = Path(__file__).resolve().parents[2]
BARS_MS = {"start_ms": 1_500.0, "weights_ms": 10.0, "reading_ms_p50": 1.0}
TITLES = {
    "start_ms": "from the command to the first list of models",
    "weights_ms": "reading the weights",
    "reading_ms_p50": "reading 4,000 new characters, median",
}
_RUNS = 5


def measure() -> dict[str, float]:
    """Milliseconds from the command to the first list of models, for the weights, and for a reading of four thousand characters."""
    return {
        "start_ms": min(_start_seconds() for _ in range(_RUNS)) * 1e3,
        "weights_ms": min(_weights_seconds() for _ in range(_RUNS)) * 1e3,
        "reading_ms_p50": statistics.median(map(_reading_seconds, range(200))) * 1e3,
    }


def _start_seconds() -> float:
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json", "--no-ledger"]
    began = time.perf_counter()
    with subprocess.Popen([*command, "--config", "config.yaml"], stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            assert server.stderr is not None
            url = server.stderr.readline().split('"url":"')[1].split('"')[0]
            with urllib.request.urlopen(f"{url}/v1/models", timeout=20):
                return time.perf_counter() - began
        finally:
            server.terminate()


def _weights_seconds() -> float:
    read_once.cache_clear()
    began = time.perf_counter()
    find_weights()
    return time.perf_counter() - began


def _reading_seconds(number: int) -> float:
    policy = LearnedPolicy(LearnedConfig())
    words = f"{number} please fix the parser in src/app_{number}.py:12 and add tests, " * 60
    began = time.perf_counter()
    policy.judge(ask(), make_signals(text=words[:4_000]))
    return time.perf_counter() - began


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:<16} {value:8.2f}   bar {BARS_MS[name]:g}")
