"""`tandem demo`.

The afternoon is played three times at once, against three routers: as Tandem decides, and with `x-tandem-tier` on deep alone
and on fast alone. So nothing is estimated, and all of it takes as long as the slowest: less than 40 seconds. Work that fast
leaves with failing tests has to be done again, and counts with what deep took for that turn in its own run.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from router.cli import Ended
from router.cli.common import known_names, number_between, print_json
from router.cli.demo.afternoon import AFTERNOON, say_speeds, write_config
from router.cli.demo.agent import Agent, Refused
from router.cli.past.looking import read_turns
from router.cli.past.sources import LedgerPast
from router.cli.routers import url_of
from router.cli.run import serving
from router.cli.text import Style
from router.cli.turn_lines import FinishedTurns, TurnLines
from router.config.load import check_config
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.edge.server import bind
from router.edge.server import run as run_loop
from router.past.turns import Turn
from router.telemetry import events
from router.telemetry.colour import BOLD, DIM
from router.upstream.pool import Pool
from router.wiring.build import build_house

EXAMPLES = ("demo", "demo --json")
TANDEM, ALWAYS_DEEP = "Tandem", "always deep"
RUNS: dict[str, Headers] = {
    TANDEM: (),
    ALWAYS_DEEP: (("x-tandem-tier", "deep"),),
    "always fast": (("x-tandem-tier", "fast"),),
}
LEDGER = "ledger.db"
_THINK_SECONDS = 0.6
"""Between what is shown and what is typed next. It counts nowhere."""
_ALL = 1_000
"""More turns than the demo has."""
_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Played:
    """A run of the whole afternoon: its turns as the ledger has them, and which of them ended with failing tests."""

    turns: Sequence[Turn]
    failures: Sequence[bool]
    """The ledger cannot know that: the agent does."""

    @property
    def took_seconds(self) -> float:
        return sum(map(took_seconds, self.turns))

    @property
    def requests(self) -> int:
        return sum(turn.calls for turn in self.turns)

    def redo_seconds(self, on_deep: "Played") -> float:
        """What it takes deep to do the failed turns again: what it took for them in the run on deep alone."""
        return sum(took_seconds(deep) for deep, failed in zip(on_deep.turns, self.failures, strict=True) if failed)

    def as_json(self, on_deep: "Played") -> JsonObject:
        words = [turn.words for conversation in AFTERNOON for turn in conversation]
        redo = self.redo_seconds(on_deep)
        return {
            "turns": [_turn_json(*told) for told in zip(words, self.turns, self.failures, strict=True)],
            "requests": self.requests,
            "took_seconds": round(self.took_seconds, 3),
            "failed_turns": sum(self.failures),
            "redo_seconds": round(redo, 3),
            "done_seconds": round(self.took_seconds + redo, 3),
        }


def took_seconds(turn: Turn) -> float:
    """From the first request of a turn to its last byte, with what was waited for after a refusal."""
    return turn.last_at - turn.at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON: every turn and the sums, at the end")
    parser.add_argument(
        "--speed",
        type=number_between(1, 10),
        default=1.0,
        metavar="N",
        help="run N times faster, up to 10 (default: 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Play the afternoon, and say what the ledgers say of it."""
    shown = None if arguments.json else Shown(sys.stdout)
    events.set_up_logging(lambda *_: None)
    runs: dict[str, Played] = {}

    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="tandem-demo-") as folder:
            runs.update(await play(Path(folder), arguments.speed, shown))

    try:
        run_loop(main)
    except Refused as error:
        raise Ended(1, str(error)) from error
    except asyncio.CancelledError:
        return _TERMINATED
    if arguments.json:
        print_json({name.replace(" ", "_").lower(): run.as_json(runs[ALWAYS_DEEP]) for name, run in runs.items()})
    return 0


class Shown:
    """Prints the run as Tandem decides: what is typed, and a line for each finished turn."""

    def __init__(self, stream: TextIO) -> None:
        self.turns, self._lines = FinishedTurns(), TurnLines(stream)

    def say(self, *lines: str, colour: str = "") -> None:
        self._lines.print(*(self._lines.style.paint(line, colour) for line in lines))

    def finish(self) -> None:
        self._lines.write(self.turns.take(is_last=True))

    def close(self, runs: dict[str, Played]) -> None:
        self.say(*write_sums(runs, self._lines.style))


async def play(folder: Path, speed: float, shown: Shown | None) -> dict[str, Played]:
    """The afternoon, three times at once. The ledgers stay in the folder. Raises `Refused`."""
    loop, playing = asyncio.get_running_loop(), asyncio.current_task()
    assert playing is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, playing.cancel)
    if shown is not None:
        shown.say(f"A coding afternoon. Simulated tiers: {say_speeds(speed)}", "")
    try:
        # All servers end before the first house is closed: that ends what runs in the background of this process.
        async with contextlib.AsyncExitStack() as houses, contextlib.AsyncExitStack() as servers:
            told = {TANDEM: shown}
            urls = [await _start_router(folder / name, speed, told.get(name), houses, servers) for name in RUNS]
            agents = zip(urls, RUNS.items(), strict=True)
            failures = await asyncio.gather(
                *(play_afternoon(url, headers, speed, told.get(name)) for url, (name, headers) in agents)
            )
        pasts = [LedgerPast(folder / name / LEDGER) for name in RUNS]
        turns = [await asyncio.to_thread(read_turns, past, 0.0, _ALL) for past in pasts]
        runs = {name: Played(*played) for name, played in zip(RUNS, zip(turns, failures, strict=True), strict=True)}
        if shown is not None:
            shown.close(runs)
        return runs
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _start_router(
    folder: Path, speed: float, shown: Shown | None, houses: contextlib.AsyncExitStack, servers: contextlib.AsyncExitStack
) -> str:
    """A router with a ledger in this folder, on a free port: its address. What ends it is put on the two stacks."""
    os.mkdir(folder)
    loaded = check_config(write_config(LEDGER, speed), "the demo's config", folder, known_names())
    listener = houses.enter_context(bind("127.0.0.1", 0))
    built = build_house(loaded, watchers=(shown.turns,) if shown is not None else ())
    houses.push_async_callback(built.close)
    await servers.enter_async_context(serving(built, listener, loaded.config.limits.drain_seconds))
    return url_of(*listener.getsockname()[:2])


async def play_afternoon(url: str, headers: Headers, speed: float, shown: Shown | None) -> list[bool]:
    """The afternoon against one router: for each turn, whether its tests were red at the end."""
    failures, pool = [], Pool()
    try:
        for number, conversation in enumerate(AFTERNOON, 1):
            agent = Agent(pool, url, f"demo-{number}", headers, speed)
            for turn in conversation:
                if shown is not None:
                    shown.say("\n  ".join(f"> {turn.words}".split("\n")), colour=BOLD)
                failures.append(await agent.take(turn))
                if shown is not None:
                    await asyncio.sleep(_THINK_SECONDS / speed)
                    shown.finish()
    finally:
        await pool.close()
    if shown is not None:
        shown.say("", "The run on deep alone is not done yet.", colour=DIM)
    return failures


def write_sums(runs: dict[str, Played], style: Style) -> list[str]:
    """Time to done, each way."""
    lines = ["", style.paint(_sum_line("", "took", "redo by deep", "time to done"), DIM)]
    for name, played in runs.items():
        failed, redo = sum(played.failures), played.redo_seconds(runs[ALWAYS_DEEP])
        on_fast = sum(turn.tier == Tier.FAST for turn in played.turns)
        told = f"{name}: {on_fast} turns on fast, {len(played.turns) - on_fast} on deep" if name == TANDEM else name
        told += f": {failed} turns end with failing tests" if failed else ""
        done = _tenths(played.took_seconds + redo)
        line = _sum_line(told, _tenths(played.took_seconds), _tenths(redo) if failed else "-", done)
        lines.append(style.paint(line, BOLD) if name == TANDEM else line)
    requests = " + ".join(str(played.requests) for played in runs.values())
    notes = (
        f"From the ledgers of three routers that ran at once: {requests} requests.",
        "No model was asked: by the script, only deep can make failing tests pass.",
    )
    return [*lines, "", *(style.paint(note, DIM) for note in notes)]


def _turn_json(words: str, turn: Turn, has_failed: bool) -> JsonObject:
    return {
        "words": words,
        "tiers": [Tier.FAST, Tier.DEEP] if turn.has_moved_up else [turn.tier],
        "because": turn.why,
        "calls": turn.calls,
        "first_token_seconds": round(turn.first_seconds or 0.0, 3),
        "took_seconds": round(took_seconds(turn), 3),
        "tests_failed": has_failed,
        "outcome": turn.outcome,
    }


def _sum_line(name: str, took: str, redo: str, done: str) -> str:
    return f"{name:<44} {took:>7}  {redo:>12}  {done:>12}"


def _tenths(seconds: float) -> str:
    """A figure of the sums: with its tenths, so that a reader can add them up."""
    return f"{seconds:.1f}s"
