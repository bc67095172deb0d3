"""`tandem serve`."""

import argparse
import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from router.cli import Ended, installed_version
from router.cli.common import (
    add_config_argument,
    command_name,
    init_command,
    load_or_end,
    readable,
    refuse_config,
    say,
    whole_number_between,
)
from router.cli.hangup import Hangup, stop_with_terminal
from router.cli.reading import Reading
from router.cli.refused import REFUSALS, explain, say_unrecorded
from router.cli.routers import Router, leave_router, note_router, url_of
from router.cli.welcome import certificate_of, warn_of_expiry, welcome
from router.cli.workers.count import count_workers, read_worker_count
from router.config.budgets import check_recorded
from router.config.certificate import CertificateUnusable
from router.config.load import ConfigError, LoadedConfig, find_config
from router.config.targets import TargetPlan
from router.edge.admission import Admission
from router.edge.server import Server, bind
from router.edge.server import run as run_loop
from router.edge.tls import TlsFiles
from router.loop.large_pages import use_large_pages
from router.loop.tasks import spawn
from router.screen.figures import plural
from router.stores.sqlite.files import StoreUnwritable
from router.telemetry import events
from router.telemetry.colour import can_redraw
from router.wiring.build import build_house
from router.wiring.built import Built
from router.wiring.panels import build_edge

if TYPE_CHECKING:
    import socket

    from router.cli.workers.seat import Seat
    from router.screen.head import Facts
    from router.screen.screen import Screen

_COLLECT_AFTER = 2_000
_OWN_HANDLES = 200

EXAMPLES = ("serve", "serve --port 4001 --log json", "serve --config work.yaml --ledger off", "serve --workers auto")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--host", help="the address to bind (default: server.host; loopback only, unless keys are needed)")
    parser.add_argument(
        "--port", type=whole_number_between(0, 65_535), help="the port to bind (default: server.port; 0 picks a free one)"
    )
    parser.add_argument(
        "--log",
        choices=("text", "json"),
        help="one line for each request, for files (default: a screen of turns on a terminal, else json)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="on a terminal: a line for each call, with the estimate")
    parser.add_argument("--words", action="store_true", help="on a terminal: show the first 40 characters of what was typed")
    parser.add_argument(
        "--workers",
        type=read_worker_count,
        metavar="N|auto",
        help="how many processes serve the address (default: server.workers, which is 1; auto: one for each core)",
    )
    parser.add_argument("--ledger", choices=("on", "off"), default="on", help="off: write no record to disk")


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    began = time.perf_counter()
    loaded = load_or_end(arguments.config)
    path = find_config(arguments.config)
    reading = Reading(path.absolute() if path is not None else None, arguments.config)
    count = count_workers(arguments.workers or loaded.config.server.workers)
    # Several workers write to one terminal, line by line. `tandem top` has the screen of all of them.
    has_screen = arguments.log is None and sys.stderr.isatty() and count == 1
    as_json = arguments.log == "json" or (arguments.log is None and not sys.stderr.isatty())
    screen = _open_screen(arguments) if has_screen else None
    events.set_up_logging(as_json=as_json, note=screen.note if screen else None, refused=screen.refuse if screen else None)
    with_ledger = arguments.ledger == "on"
    _check_recorded(loaded, with_ledger=with_ledger)
    server = loaded.config.server
    host, port = arguments.host or server.host, server.port if arguments.port is None else arguments.port
    with _explained(url_of(host, port, is_tls=server.tls is not None)):
        if count > 1:
            return _serve_group(loaded, reading, (host, port), began, count, as_json=as_json, with_ledger=with_ledger)
        with bind(host, port, needs_keys=loaded.keys is not None) as listener:
            return _serve(loaded, reading, listener, began, screen, as_json=as_json, with_ledger=with_ledger)


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    """Why a router cannot serve, and what to do about it, as the end of the command."""
    try:
        yield
    except REFUSALS as error:
        raise Ended(2, explain(error, url)) from error


def _serve_group(
    loaded: LoadedConfig,
    reading: Reading,
    address: tuple[str, int],
    began: float,
    count: int,
    *,
    as_json: bool,
    with_ledger: bool,
) -> int:
    from router.cli.workers.group import Order, serve_group  # one worker needs none of it

    def serve(taken: LoadedConfig, own: Reading, listener: "socket.socket", seat: "Seat", has_ledger: bool) -> int:
        started = time.perf_counter()
        events.name_worker(seat.number)
        with _explained(""):
            return _serve(taken, own, listener, started, None, as_json=as_json, with_ledger=has_ledger, seat=seat)

    order = Order(count, *address, began, as_json, with_ledger, _check_recorded)
    return serve_group(order, loaded, reading, serve)


def _check_recorded(loaded: LoadedConfig, *, with_ledger: bool) -> None:
    try:
        check_recorded(loaded.keys, loaded.source, with_ledger=with_ledger)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


def _open_screen(arguments: argparse.Namespace) -> "Screen":
    from router.screen.screen import Screen  # only a terminal needs it
    from router.screen.terminal import Terminal, style_of

    is_still = not can_redraw(sys.stderr)
    return Screen(
        Terminal(sys.stderr),
        style_of(sys.stderr, os.environ),
        is_each_call=arguments.verbose or is_still,
        is_still=is_still,
        shows_words=arguments.words,
    )


def _serve(
    loaded: LoadedConfig,
    reading: Reading,
    listener: "socket.socket",
    began: float,
    screen: "Screen | None",
    *,
    as_json: bool,
    with_ledger: bool,
    seat: "Seat | None" = None,
) -> int:
    """Serve until told to stop: alone, or as the worker that has this seat."""
    tls = TlsFiles(loaded.tls_paths) if loaded.tls_paths is not None else None
    url = url_of(*listener.getsockname()[:2], is_tls=tls is not None)

    async def main() -> None:
        built, warnings, has_ledger = _build(loaded, reading, screen, url, with_ledger=with_ledger, seat=seat)
        record = _record(built, loaded, reading, url, has_ledger=has_ledger) if seat is None else None
        server: Server

        def stop() -> None:
            if not server.should_exit:  # a terminal is closed once, and a group is stopped once, however often that is noticed
                server.handle_exit(signal.SIGHUP, None)

        def take(taken: LoadedConfig) -> None:
            allow_handles(taken.config.limits.max_in_flight, taken.config.limits.max_sockets)
            if tls is not None and taken.tls_paths is not None:
                try:
                    tls.reload(taken.tls_paths)
                except CertificateUnusable as error:  # files that have changed again since they were checked
                    events.config_warned(warning=str(error))
            if record is not None:
                note_router(record._replace(certificate=certificate_of(taken)))

        def announce() -> None:
            took_ms = (time.perf_counter() - began) * 1000
            if record is not None:
                note_router(record)  # before the word that it is ready: whoever waits for that may ask at once
                events.server_started(
                    url=url, config=loaded.source, targets=len(loaded.targets), simulated=loaded.is_simulated, took_ms=took_ms
                )
            if seat is not None:
                events.worker_started(pid=os.getpid(), took_ms=took_ms)
                seat.note_ready()
            built.warm()
            built.resume_jobs()
            if has_ledger:
                spawn(built.keep_learning(), name="learn")
            spawn(built.watch_keys(), name="watch keys")
            if seat is None or seat.number == 1:  # each of them would send the same word
                spawn(built.watch_troubles(), name="watch troubles")
            for warning in (*warnings, *warn_of_expiry(loaded)) if seat is None else ():
                events.config_warned(warning=warning)
            if screen is not None:
                _start_screen(screen, loaded, url, with_ledger=has_ledger)
                screen.watch(built.notices, built.list_ended_jobs)
                stop_with_terminal(stop)
            elif not as_json and seat is None:
                say(welcome(loaded, url))

        def begin_stop() -> None:
            built.release_jobs()
            _say_stopping(loaded, admission, screen, as_json=as_json)

        if built.reloader is not None:
            built.reloader.applies.append(take)
        admission, app = build_edge(built, lambda: not server.should_exit)
        server = Server(
            admission,
            app,
            drain_seconds=loaded.config.limits.drain_seconds,
            on_ready=announce,
            on_stop=begin_stop,
            on_hangup=Hangup(built.reloader, stop).hear if seat is None else None,
            stop_listening_after_seconds=loaded.config.server.stop_listening_after_seconds,
            tls=tls,
            **({} if seat is None else {"stops_on": ()}),
        )
        if loaded.shared_postgres is not None:
            # Streams of jobs are resumed here that run elsewhere. Loaded with the first of them, the pages would hold up the
            # loop for as long as the database may take to answer.
            await app.load()
        if not admission.speedups.is_plain:
            # What is built by now lives as long as the process: the collector need not look at it again, nor look so often.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_COLLECT_AFTER, 20, 50)
            use_large_pages()
        allow_handles(loaded.config.limits.max_in_flight, loaded.config.limits.max_sockets)
        try:
            await built.connect()
            if seat is not None:
                # The same signal may have reached the parent, so it never counts as the second one: only its word hurries.
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
                await seat.open(built, stop, lambda: server.handle_exit(signal.SIGTERM, None))
            await server.serve(sockets=[listener])
        except asyncio.CancelledError:
            pass
        finally:
            if record is not None:
                leave_router(record)
            await built.close()
            if seat is None:
                events.server_stopped()
            if screen is not None:
                screen.close()

    run_loop(main)
    return 0


def _record(built: Built, loaded: LoadedConfig, reading: Reading, url: str, *, has_ledger: bool) -> Router:
    """What other commands need to know of this router."""
    ledger = loaded.ledger_path.absolute() if has_ledger and loaded.ledger_path is not None else None
    key = built.own_key if loaded.keys is not None else ""
    return Router(url, ledger, time.time(), reading.path, key, certificate_of(loaded))


def _build(
    loaded: LoadedConfig, reading: Reading, screen: "Screen | None", url: str, *, with_ledger: bool, seat: "Seat | None"
) -> tuple[Built, tuple[str, ...], bool]:
    """The house, what to warn about, and whether there is a ledger: not if its folder cannot be written to."""
    watchers = (screen,) if screen else ()
    try:
        built = build_house(loaded, with_ledger=with_ledger, watchers=watchers, address=url, load=reading.load, group=seat)
        return built, loaded.warnings, with_ledger
    except StoreUnwritable as error:
        _check_recorded(loaded, with_ledger=False)
        built = build_house(loaded, with_ledger=False, watchers=watchers, load=reading.load, group=seat)
        return built, (*loaded.warnings, say_unrecorded(error)), False


def _start_screen(screen: "Screen", loaded: LoadedConfig, url: str, *, with_ledger: bool) -> None:
    loop = asyncio.get_running_loop()
    screen.open(loop, _facts(loaded, url, with_ledger=with_ledger))
    loop.add_signal_handler(signal.SIGWINCH, screen.wake)
    loop.add_signal_handler(signal.SIGCONT, screen.start_over)  # after Ctrl-Z the shell has written below our lines


def _facts(loaded: LoadedConfig, url: str, *, with_ledger: bool) -> "Facts":
    from router.screen.head import Facts  # only a terminal needs it

    path = loaded.ledger_path if with_ledger else None
    return Facts(
        version=installed_version(),
        url=url,
        targets=tuple((plan.target.tier, _name_of(plan)) for plan in loaded.targets),
        preference=loaded.config.preference,
        ledger=_short_path(path) if path is not None else "off",
        connect=_connect_command(loaded, url),
        init=init_command(),
        is_simulated=loaded.is_simulated,
        second_opinion=loaded.second_opinion,
    )


def _connect_command(loaded: LoadedConfig, url: str) -> str:
    """What points a client here; with the address where it is not the config's."""
    server = loaded.config.server
    if url == url_of(server.host, server.port, is_tls=server.tls is not None):
        return f"{command_name()} connect codex | claude-code | opencode"
    return f"{command_name()} connect codex --url {url}"


def _name_of(plan: TargetPlan) -> str:
    name, model = plan.target.name, readable(plan.endpoint.model)
    return name if not model or model == name else f"{name} {model}"


def _short_path(path: Path) -> str:
    """From here, or from home, if that is shorter."""
    whole = str(path.absolute())
    here, home = os.path.relpath(whole), whole.replace(str(Path.home()), "~", 1)
    return min((whole, home) if here.startswith("..") else (whole, home, here), key=len)


def _say_stopping(loaded: LoadedConfig, admission: Admission, screen: "Screen | None", *, as_json: bool) -> None:
    """What happens between the signal and the end, and how to have it sooner."""
    listens, drain = loaded.config.server.stop_listening_after_seconds, loaded.config.limits.drain_seconds
    running = admission.in_flight
    if as_json:
        events.server_stopping(running=running, sockets=admission.sockets, listens_seconds=listens, drain_seconds=drain)
        return
    finishing = f"finishing {plural(running, 'request')} within {drain:g} s" if running else ""
    if listens:
        finishing = f"serving new requests for {listens:g} s more, then finishing what runs within {drain:g} s"
    if finishing:
        (screen.note if screen else say)(f"{finishing}; Ctrl-C again stops at once")


def allow_handles(max_in_flight: int, max_sockets: int) -> int:
    """Raise this process's limit of file handles as far as needed and allowed. Returns the new limit.

    Each request needs one for its caller and one for its target.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * max_in_flight + max_sockets + _OWN_HANDLES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
