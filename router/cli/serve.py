"""`tandem serve`."""

import argparse
import asyncio
import gc
import json
import sys
import time
from typing import TYPE_CHECKING

from router.cli.common import add_config_argument, command_name, common_dialect, load_or_report, say
from router.config.load import LoadedConfig
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS
from router.edge.server import CannotListen, Server, bind
from router.edge.server import run as run_loop
from router.stores.sqlite.files import StoreUnusable
from router.telemetry import events
from router.telemetry.tasks import spawn
from router.wiring import build_edge, build_house

if TYPE_CHECKING:
    import socket

_COLLECT_AFTER = 2_000
QUICK_EXAMPLE = "Fix the typo in this line: retrun x"
LONG_EXAMPLE = "Implement an expression parser with tests and docs, step by step, until everything passes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    parser.add_argument("--host", help="the address to bind (default: server.host; loopback only)")
    parser.add_argument("--port", type=_port, help="the port to bind (default: server.port; 0 picks a free one)")
    parser.add_argument(
        "--log", choices=("text", "json"), help="how requests are shown (default: text on a terminal, else json)"
    )
    parser.add_argument("--ledger", choices=("on", "off"), default="on", help="off: write no requests and no responses to disk")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{port} is not between 0 and 65535")
    return port


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    began = time.perf_counter()
    loaded = load_or_report(arguments.config)
    if loaded is None:
        return 2
    as_json = arguments.log == "json" or (arguments.log is None and not sys.stderr.isatty())
    events.set_up_logging(as_json=as_json)
    server = loaded.config.server
    try:
        with bind(arguments.host or server.host, server.port if arguments.port is None else arguments.port) as listener:
            return _serve(loaded, listener, began, as_json=as_json, with_ledger=arguments.ledger == "on")
    except CannotListen as error:
        say(str(error).replace("--port", f"{command_name()} serve --port"))
        return 2
    except StoreUnusable as error:
        say(f"{error}\n  hint: move the file away, or start with --ledger=off")
        return 2


def _serve(loaded: LoadedConfig, listener: "socket.socket", began: float, *, as_json: bool, with_ledger: bool) -> int:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def main() -> None:
        built = build_house(loaded, with_ledger=with_ledger)
        server: Server

        def announce() -> None:
            took_ms = (time.perf_counter() - began) * 1000
            events.server_started(
                url=url, config=loaded.source, targets=len(loaded.targets), simulated=loaded.is_simulated, took_ms=took_ms
            )
            built.warm()
            if with_ledger:
                spawn(built.keep_learning(), name="learn")
            for warning in loaded.warnings:
                events.config_warned(warning=warning)
            if not as_json:
                say(_welcome(loaded, url))

        admission, app = build_edge(built.house, lambda: not server.should_exit)
        server = Server(
            admission,
            app,
            drain_seconds=loaded.config.limits.drain_seconds,
            on_ready=announce,
            on_stop=lambda: _say_draining(admission.in_flight, as_json=as_json),
        )
        # What is built by now lives as long as the process: the collector need not look at it again, nor look so often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER, 20, 50)
        try:
            await server.serve(sockets=[listener])
        except asyncio.CancelledError:
            pass
        finally:
            await built.close()
            events.server_stopped()

    run_loop(main)
    return 0


def _say_draining(running: int, *, as_json: bool) -> None:
    if running and not as_json:
        say(f"finishing {running} request{'s' if running > 1 else ''}; Ctrl-C again stops at once")


def _welcome(loaded: LoadedConfig, url: str) -> str:
    """What a new user needs: the targets, the address, and one request of each kind to paste."""
    lines = []
    if loaded.is_simulated:
        lines += [
            f"No model is configured ({loaded.source}), so simulated tiers answer, with placeholder text at realistic speeds.",
            f"`{command_name()} init --force` writes a config.yaml for the keys and local servers it finds here.",
        ]
    else:
        names = ", ".join(f"{plan.target.tier} {plan.target.name}" for plan in loaded.targets)
        lines.append(f"Serving {names} ({loaded.source}).")
    dialect = common_dialect(loaded)
    lines += [
        "",
        f"Base URL    {url}/v1          (Claude Code and Anthropic SDKs: {url})",
        "",
        "A quick edit:",
        _curl(url, dialect, QUICK_EXAMPLE),
        "A long task:",
        _curl(url, dialect, LONG_EXAMPLE),
        "",
    ]
    return "\n".join(lines)


def _curl(url: str, dialect: Dialect, words: str) -> str:
    spec = SPECS[dialect]
    body = {**spec.write_example(words), **spec.stream_fields}
    return f"  curl -iN {url}/v1{spec.paths[Operation.CREATE]} -H 'content-type: application/json' -d '{json.dumps(body)}'"
