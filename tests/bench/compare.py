"""`make bench ARGS="--against COMMIT"`: the working tree and a commit, running at the same time and driven in turn.

Two starts of the same code differ by some 3 % in CPU, and a machine's speed wanders more than that within a second. So a
figure is the median of many ratios, each over bursts that alternate every few hundredths of a second, and both versions are
started afresh for every second ratio.
"""

import asyncio
import contextlib
import json
import os
import signal
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.bursts import (
    Measure,
    Order,
    Router,
    repeated_requests,
    requests_sent_once,
    streamed_tokens,
    time_to_first_token,
)
from tests.bench.processes import CONFIG, CORES, RESPONSES_CONFIG, DidNotStart, interpreter, say, start_tandem, start_upstream
from tests.bench.versions import FLAGS, UnknownVersion, copy_working_tree, environment, find_commit, unpack_commit

ROUNDS = 14
PAIR_SECONDS = 0.25
LONGEST_SECONDS = 15.0
ORDERS = (("base", "tree", "tree", "base"), ("tree", "base", "base", "tree"))


@dataclass
class Costs:
    """One figure: what each version took, pair by pair."""

    title: str
    unit: str
    measure: Measure | None = None
    config: str = CONFIG
    """That of the routers it is measured with."""
    base: list[float] = field(default_factory=list)
    tree: list[float] = field(default_factory=list)

    def add(self, version: str, cost: float) -> None:
        (self.base if version == "base" else self.tree).append(cost)

    def ratios(self) -> list[float]:
        return [tree / base for base, tree in zip(self.base, self.tree, strict=True)]

    def quartiles(self) -> tuple[float, float, float]:
        ratios = self.ratios()
        first, middle, third = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
        return first, middle, third


def figures() -> dict[str, Costs]:
    return {
        "cpu_us_600b": Costs("CPU for 600 B, the same again", "µs", repeated_requests(600)),
        "cpu_us_fresh": Costs("CPU for 600 B, words never sent before", "µs", requests_sent_once("fresh")),
        "cpu_us_agent": Costs("CPU for a tool loop that goes on, 50 KB", "µs", requests_sent_once("agent")),
        "cpu_us_agent_first": Costs("CPU for a tool loop first seen, 45 KB", "µs", requests_sent_once("agent_first")),
        "cpu_us_codex": Costs("CPU for Codex that goes on, 53 KB", "µs", requests_sent_once("codex"), RESPONSES_CONFIG),
        "cpu_us_codex_first": Costs("CPU for Codex first seen", "µs", requests_sent_once("codex_first"), RESPONSES_CONFIG),
        "cpu_us_500kb": Costs("CPU for 500 KB, the same again", "µs", repeated_requests(500_000, 2)),
        "cpu_us_grown": Costs("CPU for 500 KB and a few words more", "µs", requests_sent_once("grown", 1)),
        "cpu_us_per_token": Costs("CPU for a relayed token, 16 streams", "µs", streamed_tokens("chat")),
        "cpu_us_per_bridged_token": Costs("CPU for a token bridged to messages, 16 streams", "µs", streamed_tokens("messages")),
        "ttft_ms": Costs("time to first token", "ms", time_to_first_token),
        "start_seconds": Costs("start to first answer", "s"),
        "start_cpu_seconds": Costs("CPU from start to first answer", "s"),
        "idle_mb": Costs("memory, idle", "MB"),
    }


def compare(name: str, rounds: int, seconds: float, json_file: str | None) -> int:
    """Print the table, and answer the exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        commit = find_commit(name)
        found = measure(commit, rounds, seconds)
    except UnknownVersion as error:
        say(f"make bench: {error}")
        return 2
    except DidNotStart as error:
        say(f"make bench: a router did not start: {error}")
        return 1
    except KeyboardInterrupt:
        say("make bench: interrupted")
        return 130
    print_table(commit[:7], found)
    if json_file:
        Path(json_file).write_text(json.dumps(as_json(commit, seconds, found), indent=2))
    return 0


def interrupt(*_: object) -> None:
    """Let a `kill` end the routers and remove the folders, as Ctrl-C does. A second one must not disturb that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.raise_signal(signal.SIGINT)


def measure(commit: str, rounds: int, seconds: float) -> dict[str, Costs]:
    found = figures()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CORES[0]})
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder, upstream() as upstream_port:
        code = {version: Path(folder).resolve() / version for version in ("base", "tree")}
        for path in code.values():
            path.mkdir()
        unpack_commit(commit, code["base"])
        copy_working_tree(code["tree"])
        say(f"the working tree against {commit[:7]}: the first start compiles and is not counted")
        with running(code, ORDERS[0], upstream_port, CONFIG, figures()):
            pass
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            order = ORDERS[number % 2]
            for config in (CONFIG, RESPONSES_CONFIG):
                with running(code, order, upstream_port, config, found) as routers:
                    run(drive(routers, order, seconds, [costs for costs in found.values() if costs.config is config]))
    return found


@contextlib.contextmanager
def upstream() -> Iterator[int]:
    process, port = start_upstream()
    try:
        yield port
    finally:
        process.stop()


@contextlib.contextmanager
def running(
    code: dict[str, Path], order: Order, upstream_port: int, config: str, found: dict[str, Costs]
) -> Iterator[dict[str, Router]]:
    """Both versions, started one after another, with what their start took."""
    with contextlib.ExitStack() as stack:
        routers = {}
        for version in order[:2]:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-bench-")))
            process, port, took = start_tandem(
                upstream_port, folder, *FLAGS, config=config, env=environment(code[version]), cwd=folder
            )
            stack.callback(process.stop)
            found["start_seconds"].add(version, took)
            found["start_cpu_seconds"].add(version, process.cpu_nanoseconds() / 1e9)
            found["idle_mb"].add(version, process.resident_mb())
            routers[version] = Router(process, port, upstream_port)
        yield routers


def run(work) -> None:
    try:
        import uvloop  # optional: an extra
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def drive(routers: dict[str, Router], order: Order, seconds: float, found: list[Costs]) -> None:
    for costs in found:
        if costs.measure is None:
            continue
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                taken = await costs.measure(routers, order, seconds)
        except Exception as error:
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            say(f"{costs.title}: not measured; a router did not answer as expected ({cause!r})")
            costs.measure = None
            continue
        for version, cost in taken:
            costs.add(version, cost)


def print_table(against: str, found: dict[str, Costs]) -> None:
    print(f"ratio: working tree over {against}; below 1 the working tree takes less; {interpreter()}\n")
    print(f"{'figure':<50}{against:>12}{'tree':>12}{'ratio':>9}{'quartiles':>17}{'pairs':>7}")
    for costs in found.values():
        if not costs.base:
            print(f"{costs.title:<50}{'not measured':>12}")
            continue
        base, tree = (f"{statistics.median(values):.2f} {costs.unit}" for values in (costs.base, costs.tree))
        first, middle, third = costs.quartiles()
        print(f"{costs.title:<50}{base:>12}{tree:>12}{middle:>9.3f}{f'{first:.3f} to {third:.3f}':>17}{len(costs.base):>7}")


def as_json(commit: str, seconds: float, found: dict[str, Costs]) -> dict:
    measured = {name: costs for name, costs in found.items() if costs.base}
    return {
        "against": commit,
        "seconds": seconds,
        "figures": {
            name: {
                "unit": costs.unit,
                "median": costs.quartiles()[1],
                "quartiles": [costs.quartiles()[0], costs.quartiles()[2]],
                "ratios": costs.ratios(),
                "against": costs.base,
                "tree": costs.tree,
            }
            for name, costs in measured.items()
        },
    }
