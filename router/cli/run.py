"""`tandem run`: a router for the duration of one command, for CI and scripts."""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from router.cli import Ended
from router.cli.common import KEY_VARIABLE, add_config_argument, add_ledger_switch, load_in_use, say
from router.cli.refused import REFUSALS, explain
from router.cli.routers import url_of
from router.cli.setup.facts import point_command
from router.cli.setup.reach import ClientKey
from router.cli.totals import Totals
from router.config.load import LoadedConfig
from router.edge.server import Server, bind
from router.edge.server import run as run_loop
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.stores.sqlite.lock import StoreInUse
from router.telemetry import events
from router.wiring.build import build_house
from router.wiring.built import Built
from router.wiring.panels import build_edge

TAKES_REST = True
EXAMPLES = (
    "run -- codex exec 'fix the failing test'",
    "run --config ci.yaml -- claude -p 'update the changelog'",
    "run -- ./agents.sh",
)
_NOT_FOUND, _NOT_STARTED = 127, 126


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="-- COMMAND",
        help="a client that tandem connect knows, or one that reads OPENAI_BASE_URL or ANTHROPIC_BASE_URL",
    )
    add_config_argument(parser)
    add_ledger_switch(parser)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.arguments:
        raise Ended(2, "name a command, as in tandem run -- codex exec 'fix the typo'")
    program = shutil.which(arguments.arguments[0])
    if program is None:
        raise Ended(_NOT_FOUND, f"{arguments.arguments[0]}: command not found")
    loaded = load_in_use(arguments.config)
    totals = Totals()
    events.set_up_logging(lambda said, _: say(f"tandem: {said}"))
    codes: list[int] = []

    async def main() -> None:
        codes.append(await _serve_while(loaded, [program, *arguments.arguments[1:]], totals, arguments.ledger == "on"))

    try:
        run_loop(main)
    except REFUSALS as error:
        raise Ended(2, explain(error)) from error
    say(f"tandem: {totals.sentence()}")
    return codes[0]


async def _serve_while(loaded: LoadedConfig, command: list[str], totals: Totals, with_ledger: bool) -> int:
    with bind(loaded.config.server.host, 0) as listener:
        url = url_of(*listener.getsockname()[:2])
        built = _build(loaded, totals, url, with_ledger=with_ledger)
        try:
            async with serving(built, listener, loaded.config.limits.drain_seconds):
                totals.read_from(built.ledger_path, built.house.state.metrics.began_at)
                supervise(built.watch_troubles, name="watch troubles")
                return await _run_pointed(loaded, url, command, built.own_key)
        finally:
            for notice in built.notices():
                say(f"tandem: {notice.text}\n  hint: {notice.hint}")
            await built.close()


def _build(loaded: LoadedConfig, totals: Totals, url: str, *, with_ledger: bool) -> Built:
    """The house; without a record if the ledger is in use."""
    try:
        return build_house(loaded, with_ledger=with_ledger, watchers=(totals,), address=url)
    except StoreInUse as error:
        say(f"{error}, so no record of this run is kept\n  hint: set ledger.path in a config of its own to keep one")
    return build_house(loaded, with_ledger=False, watchers=(totals,))


async def _run_pointed(loaded: LoadedConfig, url: str, command: list[str], own_key: str) -> int:
    key = ClientKey(KEY_VARIABLE, own_key) if loaded.keys is not None else None
    with tempfile.TemporaryDirectory(prefix="tandem-") as folder:
        command, added = await asyncio.to_thread(point_command, loaded, url, command, key, Path(folder))
        return await _run_to_its_end(command, {**os.environ, **added})


async def _run_to_its_end(command: list[str], environment: Mapping[str, str]) -> int:
    """The exit status as a shell reports it. Ctrl-C reaches the command directly; stop signals are passed on."""
    loop, started, early = asyncio.get_running_loop(), asyncio.Event(), list[int]()
    process: asyncio.subprocess.Process

    def pass_on(number: int) -> None:
        if not started.is_set():
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    # Installed before the start: a signal in between would end us and leave the command running.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, pass_on, number)
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        started.set()
        for missed in early:
            pass_on(missed)
        code = await process.wait()
    except OSError as error:
        say(f"{command[0]}: {error.strerror or error}")
        return _NOT_STARTED
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    sys.stdout.flush()
    return 128 - code if code < 0 else code


@contextlib.asynccontextmanager
async def serving(built: Built, listener: socket.socket, drain_seconds: float) -> AsyncIterator[None]:
    """Serve on this socket until the block ends. The house stays open."""
    server: Server
    ready = asyncio.Event()
    admission, app = build_edge(built, lambda: not server.is_stopping)
    server = Server(admission, app, drain_seconds=drain_seconds, on_ready=ready.set)
    task = spawn(server.serve([listener]), name="serve")
    try:
        await ready.wait()
        built.warm()
        yield
    finally:
        server.stop()
        await asyncio.gather(task, return_exceptions=True)
