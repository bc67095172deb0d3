"""`make bench`: direct calls and calls through Tandem, in turn, on one machine. Prints ratios; absolute figures are the machine's."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.bench.decision import decision_times

HERE = Path(__file__).resolve().parent
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
ledger: {{path: bench.db}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000}}]}}
"""


def pinned(core: int):
    return (lambda: os.sched_setaffinity(0, {core})) if hasattr(os, "sched_setaffinity") else None


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Process:
    """A child whose CPU time and memory can be read."""

    def __init__(self, command: list[str], core: int, **more) -> None:
        self.child = subprocess.Popen(command, preexec_fn=pinned(core), text=True, **more)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.child.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self.child.terminate()
        self.child.wait(10)


def load(kind: str, port: int, size: int, count: int, seconds: float, dialect: str = "chat") -> dict:
    command = [sys.executable, str(HERE / "load.py"), kind, *map(str, (port, size, count, seconds)), dialect]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=pinned(CORES[0]), timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return json.loads(done.stdout)


def start_tandem(upstream_port: int, folder: Path) -> tuple[Process, int, float]:
    """A fresh Tandem, its port, and the seconds to its first answer."""
    (folder / "config.yaml").write_text(CONFIG.format(url=f"http://127.0.0.1:{upstream_port}/v1"))
    command = [
        sys.executable,
        "-m",
        "router.cli",
        "serve",
        "--config",
        str(folder / "config.yaml"),
        "--port",
        "0",
        "--log",
        "json",
    ]
    began = time.monotonic()
    process = Process(command, CORES[-1], stderr=subprocess.PIPE)
    port = int(json.loads(process.child.stderr.readline())["url"].rsplit(":", 1)[1])
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        b'{"model":"auto","messages":[{"role":"user","content":"fix the typo"}]}',
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
    took = time.monotonic() - began
    # Its log must be read, or it would stop when the pipe is full.
    subprocess.Popen(["cat"], stdin=process.child.stderr, stdout=subprocess.DEVNULL)
    return process, port, took


def measure(seconds: float, folder: Path) -> dict[str, float]:
    """One round: every figure once, direct and through Tandem in turn."""
    upstream = Process([sys.executable, str(HERE / "upstream.py"), "0"], CORES[0], stdout=subprocess.PIPE)
    direct = int(upstream.child.stdout.readline())
    tandem, port, start = start_tandem(direct, folder)
    found: dict[str, float] = {"start_seconds": start, "idle_mb": tandem.resident_mb()}
    try:
        for size, name in ((600, "600b"), (100_000, "100kb"), (500_000, "500kb")):
            load("whole", port, size, 8, seconds / 4)
            plain = load("whole", direct, size, 8, seconds)
            before = tandem.cpu_seconds()
            routed = load("whole", port, size, 8, seconds)
            found[f"cpu_us_{name}"] = (tandem.cpu_seconds() - before) / routed["requests"] * 1e6
            found[f"latency_ratio_{name}"] = routed["latencies"]["0.5"] / plain["latencies"]["0.5"]
        plain, routed = (load("first", target, 600, 150, 0) for target in (direct, port))
        found["ttft_ratio"] = routed["firsts"]["0.5"] / plain["firsts"]["0.5"]
        found["ttft_added_ms"] = (routed["firsts"]["0.5"] - plain["firsts"]["0.5"]) * 1e3
        plain = load("streams", direct, 600, 16, seconds)
        before = tandem.cpu_seconds()
        routed = load("streams", port, 600, 16, seconds)
        found["cpu_us_per_token"] = (tandem.cpu_seconds() - before) / routed["tokens"] * 1e6
        found["relay_added_us"] = (routed["lags"]["0.5"] - plain["lags"]["0.5"]) * 1e6
        for dialect in ("responses", "messages"):
            before = tandem.cpu_seconds()
            bridged = load("streams", port, 600, 16, seconds, dialect)
            cost = (tandem.cpu_seconds() - before) / bridged["tokens"] * 1e6
            found[f"bridged_{dialect}_ratio"] = cost / found["cpu_us_per_token"]
        held = 0
        for count in (20, 40, 60, 80):
            if load("streams", port, 600, count, seconds)["lags"]["0.99"] >= 0.05:
                break
            held = count
        found["streams_held"] = held
        watcher = subprocess.Popen(
            [sys.executable, str(HERE / "load.py"), "streams", *map(str, (port, 600, 200, 2))], stdout=subprocess.DEVNULL
        )
        time.sleep(1.5)
        found["mb_with_200_streams"] = tandem.resident_mb()
        watcher.wait(60)
    finally:
        tandem.stop()
        upstream.stop()
    return found


FIGURES = (
    ("cpu_us_600b", "CPU for a request of 600 B", "µs"),
    ("cpu_us_100kb", "CPU for a request of 100 KB", "µs"),
    ("cpu_us_500kb", "CPU for a request of 500 KB", "µs"),
    ("latency_ratio_600b", "latency, 600 B, against direct", "×"),
    ("latency_ratio_100kb", "latency, 100 KB, against direct", "×"),
    ("latency_ratio_500kb", "latency, 500 KB, against direct", "×"),
    ("ttft_ratio", "time to first token, against direct", "×"),
    ("ttft_added_ms", "time to first token, added", "ms"),
    ("cpu_us_per_token", "CPU for a relayed token, 16 streams", "µs"),
    ("relay_added_us", "delay of a token, added", "µs"),
    ("bridged_responses_ratio", "CPU for a token bridged to responses, against relayed", "×"),
    ("bridged_messages_ratio", "CPU for a token bridged to messages, against relayed", "×"),
    ("streams_held", "streams of 1,000 tokens/s held, p99 lag < 50 ms (at least)", ""),
    ("decision_ms_4kb_p99", "decision alone, 4 KB, p99", "ms"),
    ("decision_ms_100kb_p99", "decision alone, 100 KB, p99", "ms"),
    ("decision_ms_500kb_p99", "decision alone, 500 KB, p99", "ms"),
    ("start_seconds", "start to first answer", "s"),
    ("idle_mb", "memory, idle", "MB"),
    ("mb_with_200_streams", "memory, 200 streams", "MB"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown (default 3)")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one measurement (default 1.5)")
    parser.add_argument("--json", metavar="FILE", help="write every round and the medians here")
    arguments = parser.parse_args()
    rounds = []
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        with tempfile.TemporaryDirectory() as folder:
            rounds.append({**measure(arguments.seconds, Path(folder)), **decision_times()})
    medians = {name: statistics.median(found[name] for found in rounds) for name, _, _ in FIGURES}
    medians["streams_held"] = max(found["streams_held"] for found in rounds)
    print(f"{'figure':<62}{'median':>10}{'spread':>9}")
    for name, title, unit in FIGURES:
        values = [found[name] for found in rounds]
        spread = (max(values) - min(values)) / medians[name] if medians[name] else 0.0
        print(f"{title:<62}{medians[name]:>8.2f} {unit:<3}{spread:>6.0%}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"medians": medians, "rounds": rounds}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
