"""`tandem demo`.

The afternoon is played three times at once, against three routers: as Tandem decides, and with `x-tandem-tier` on deep alone
and on fast alone. So nothing is estimated, and all of it takes as long as the slowest: less than 40 seconds. Work that fast
leaves with failing tests has to be done again, and counts with what deep took for that turn in its own run.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from router.cli import Ended
from router.cli.common import number_between, print_json
from router.cli.demo.account import RowsMissing, Sums, TurnAccount, account_of, add_up, find_rows
from router.cli.demo.afternoon import AFTERNOON, say_speeds, write_config
from router.cli.demo.agent import Agent, PlayedTurn, Refused
from router.cli.demo.routers import CannotStart, RunningRouter, run_routers
from router.cli.demo.screen import TANDEM, Screen
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.loop.tasks import spawn
from router.upstream.pool import Pool

EXAMPLES = ("demo", "demo --json")
ALWAYS_DEEP = "always deep"
RUNS: dict[str, Headers] = {
    TANDEM: (),
    ALWAYS_DEEP: (("x-tandem-tier", "deep"),),
    "always fast": (("x-tandem-tier", "fast"),),
}
Accounts = dict[str, list[TurnAccount]]
_THINK_SECONDS = 0.6
"""Between what is shown and what is typed next. It counts nowhere."""
_TICK_SECONDS = 0.1
_TERMINATED = 143


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
    screen = None if arguments.json else Screen(sys.stdout)
    try:
        with tempfile.TemporaryDirectory(prefix="tandem-demo-") as folder:
            accounts = asyncio.run(play(Path(folder), arguments.speed, screen))
    except (CannotStart, Refused, RowsMissing) as error:
        raise Ended(1, str(error)) from error
    except asyncio.CancelledError:
        return _TERMINATED
    if arguments.json:
        print_json(as_json(accounts))
    return 0


async def play(folder: Path, speed: float, screen: Screen | None) -> Accounts:
    """The afternoon, three times at once. The ledgers stay in the folder. Raises `CannotStart`, `Refused` or `RowsMissing`."""
    loop, playing = asyncio.get_running_loop(), asyncio.current_task()
    assert playing is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, playing.cancel)
    if screen is not None:
        screen.show_heading(say_speeds(speed))
        screen.wait_for("starting the routers")
    async with run_routers(folder, write_config(speed), tuple(RUNS)) as routers, _ticking(screen):
        runs = [_Run(routers[name], headers, speed, screen if name == TANDEM else None) for name, headers in RUNS.items()]
        played = await asyncio.gather(*(run.play() for run in runs))
    accounts = dict(zip(RUNS, played, strict=True))
    if screen is not None:
        screen.show_sums(sum_up(accounts))
    return accounts


@contextlib.asynccontextmanager
async def _ticking(screen: Screen | None) -> AsyncIterator[None]:
    """Have the screen drawn now and then."""

    async def tick() -> None:
        while screen is not None:
            screen.tick()
            await asyncio.sleep(_TICK_SECONDS)

    task = spawn(tick(), name="tick")
    try:
        yield
    finally:
        task.cancel()
        if screen is not None:
            screen.clear()


@dataclass(frozen=True, slots=True)
class _Run:
    """The afternoon against one router. Only one of them is shown."""

    router: RunningRouter
    headers: Headers
    speed: float
    screen: Screen | None

    async def play(self) -> list[TurnAccount]:
        accounts, pool = [], Pool()
        try:
            for number, conversation in enumerate(AFTERNOON, 1):
                agent = Agent(pool, self.router.url, f"demo-{number}", self.headers, self.speed, self._follow)
                for turn in conversation:
                    if self.screen is not None:
                        await asyncio.sleep(_THINK_SECONDS / self.speed)
                        self.screen.show_words(turn.words)
                    accounts.append(await self._account(await agent.take(turn)))
        finally:
            await pool.close()
        if self.screen is not None:
            self.screen.wait_for("the run on deep alone is not done yet")
        return accounts

    def _follow(self, played: PlayedTurn) -> None:
        if self.screen is not None:
            self.screen.follow(played)

    async def _account(self, played: PlayedTurn) -> TurnAccount:
        rows = await find_rows(self.router.ledger, [call.id for call in played.calls])
        account = account_of(played.turn.words, rows, has_failed=played.has_failed)
        if self.screen is not None:
            self.screen.show_turn(account)
        return account


def sum_up(accounts: Accounts) -> dict[str, Sums]:
    """Time to done, each way."""
    return {name: add_up(turns, accounts[ALWAYS_DEEP]) for name, turns in accounts.items()}


def as_json(accounts: Accounts) -> JsonObject:
    """Everything that is shown, for a program."""
    return {
        name.replace(" ", "_").lower(): {"turns": [turn.as_json() for turn in accounts[name]], **run.as_json()}
        for name, run in sum_up(accounts).items()
    }
