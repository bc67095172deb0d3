"""`make bench`: direct calls and calls through Tandem, in turn, on one machine. Prints ratios; absolute figures are the machine's."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import bytecodes, costs, instructions, many_sockets, peak, quotas, real_time
from tests.bench.compare import PAIR_SECONDS, ROUNDS, compare
from tests.bench.decision import decision_times
from tests.bench.processes import (
    CONFIG,
    CORES,
    HERE,
    RESPONSES_CONFIG,
    Process,
    interpreter,
    pinned,
    say,
    start_tandem,
    start_upstream,
)

ROOT = HERE.parents[1]
REQUESTS = (
    ("repeated", 600, "600b"),
    ("fresh", 0, "fresh"),
    ("agent", 0, "agent"),
    ("agent_first", 0, "agent_first"),
    ("repeated", 100_000, "100kb"),
    ("repeated", 500_000, "500kb"),
)
"""What is sent, and under which name its figures are kept. Those that are not repeated are sent once each (`once.py`)."""
RESPONSES = (("codex", 0, "codex"), ("codex_first", 0, "codex_first"))
"""The same for targets that speak Responses."""


def driver(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.bench.driver", *map(str, arguments)]


def load(kind: str, port: int, size: int, count: int, seconds: float, dialect: str = "chat") -> dict:
    command = driver(kind, port, size, count, seconds, dialect)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=pinned(CORES[0]), timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return json.loads(done.stdout)


def measure(seconds: float, folder: Path) -> dict[str, float]:
    """One round: every figure once, direct and through Tandem in turn."""
    upstream, direct = start_upstream()
    tandem, port, start = start_tandem(direct, folder)
    found: dict[str, float] = {"start_seconds": start, "idle_mb": tandem.resident_mb()}
    try:
        found |= measure_requests(REQUESTS, tandem, port, direct, seconds)
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
        watcher = subprocess.Popen(driver("streams", port, 600, 200, 2), cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        found["mb_with_200_streams"] = tandem.resident_mb()
        watcher.wait(60)
        tandem.stop()
        tandem, port, _ = start_tandem(direct, folder, config=RESPONSES_CONFIG)
        found |= measure_requests(RESPONSES, tandem, port, direct, seconds)
    finally:
        tandem.stop()
        upstream.stop()
    return found


def measure_requests(
    requests: tuple[tuple[str, int, str], ...], tandem: Process, port: int, direct: int, seconds: float
) -> dict[str, float]:
    """CPU and latency of each kind of request, direct and through Tandem in turn."""
    found = {}
    for kind, size, name in requests:
        load(kind, port, size, 8, seconds / 4)
        plain = load(kind, direct, size, 8, seconds)
        before = tandem.cpu_seconds()
        routed = load(kind, port, size, 8, seconds)
        found[f"cpu_us_{name}"] = (tandem.cpu_seconds() - before) / routed["requests"] * 1e6
        found[f"latency_ratio_{name}"] = routed["latencies"]["0.5"] / plain["latencies"]["0.5"]
    return found


FIGURES = (
    ("cpu_us_600b", "CPU for 600 B, the same request again", "µs"),
    ("cpu_us_fresh", "CPU for 600 B, sixty words never sent before", "µs"),
    ("cpu_us_agent", "CPU for a call of a tool loop that goes on, 50 KB", "µs"),
    ("cpu_us_agent_first", "CPU for a tool loop first seen, 45 KB", "µs"),
    ("cpu_us_codex", "CPU for a Codex-like call that goes on, 53 KB, streamed", "µs"),
    ("cpu_us_codex_first", "CPU for a Codex-like session first seen", "µs"),
    ("cpu_us_100kb", "CPU for 100 KB, the same request again", "µs"),
    ("cpu_us_500kb", "CPU for 500 KB, the same request again", "µs"),
    ("latency_ratio_600b", "latency, 600 B, against direct", "×"),
    ("latency_ratio_agent", "latency, an agent's call, against direct", "×"),
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
    alone = {"real_time": real_time.main, "many_sockets": many_sockets.main, "quotas": quotas.main, "peak": peak.main}
    parser.add_argument(
        "what",
        nargs="?",
        choices=alone,
        help="measure this alone: what a socket saves an agent, what many cost, how quotas are shared, or a fast tier that queues",
    )
    parser.add_argument("--against", metavar="COMMIT", help="compare the working tree with this commit, not with direct calls")
    parser.add_argument("--rounds", type=int, help=f"rounds; medians are shown (default 3, with --against {ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"length of one measurement (default 1.5, with --against {PAIR_SECONDS})")
    parser.add_argument("--json", metavar="FILE", help="write every single figure and the medians here")
    arguments = parser.parse_args()
    for name in ("rounds", "seconds"):
        if (value := getattr(arguments, name)) is not None and value <= 0:
            parser.error(f"--{name}: {value} is not above 0")
    if arguments.what is not None:
        return alone[arguments.what](arguments.json)
    if arguments.against is not None:
        return compare(arguments.against, arguments.rounds or ROUNDS, arguments.seconds or PAIR_SECONDS, arguments.json)
    return measure_against_direct(arguments.rounds or 3, arguments.seconds or 1.5, arguments.json)


def measure_against_direct(count: int, seconds: float, json_file: str | None) -> int:
    rounds = []
    for number in range(count):
        say(f"round {number + 1} of {count}")
        with tempfile.TemporaryDirectory() as folder:
            rounds.append({**measure(seconds, Path(folder)), **decision_times()})
    medians = {name: statistics.median(found[name] for found in rounds) for name, _, _ in FIGURES}
    medians["streams_held"] = max(found["streams_held"] for found in rounds)
    print(f"{'figure':<62}{'median':>10}{'spread':>9}")
    for name, title, unit in FIGURES:
        values = [found[name] for found in rounds]
        spread = (max(values) - min(values)) / medians[name] if medians[name] else 0.0
        print(f"{title:<62}{medians[name]:>8.2f} {unit:<3}{spread:>6.0%}")
    say("what is waited for once")
    once = costs.measure()
    for name, title in costs.TITLES.items():
        print(f"{title:<62}{once[name]:>8.2f} ms    bar {costs.BARS_MS[name]:g}")
    say("what a request of 600 B takes, in all threads")
    _print_counts()
    print(f"\nmeasured with {interpreter()}")
    if json_file:
        Path(json_file).write_text(json.dumps({"medians": medians, "rounds": rounds, "once": once}, indent=2))
    return 0


def _print_counts() -> None:
    """Bytecodes, and instructions where valgrind is installed, of the loop's thread and of the others."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        loop, writer = bytecodes.count_case("600 B", Path(one)).total, bytecodes.count_writer(Path(other))
    print(f"{'bytecodes of the loop, and of the ledger in a batch':<62}{loop:>8,} + {writer:.0f}")
    if shutil.which("valgrind") is not None:
        burst = instructions.count_instructions(1, only={CONFIG: [instructions.REPEATED]}).burst
        print(f"{'thousand instructions of the loop, and of other threads':<62}{burst.loop:>8,.0f} + {burst.others:,.0f}")


if __name__ == "__main__":
    sys.exit(main())
