"""A serving process of `tandem serve`: start, reloads and end."""

import asyncio
import contextlib
import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from router.cli import Ended
from router.cli.common import (
    KEY_VARIABLE,
    Reading,
    command_name,
    common_dialect,
    init_command,
    refuse_config,
)
from router.cli.figures import plural
from router.cli.hangup import Hangup, stop_with_terminal
from router.cli.refused import REFUSALS, explain, say_away
from router.cli.routers import Router, leave_router, note_reload, note_router, record_of, url_of
from router.config.across import check_recorded
from router.config.certificate import CertificateUnusable, read_certificate
from router.config.load import ConfigError, LoadedConfig
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS
from router.edge.admission import Admission
from router.edge.http.asgi import AsgiApp
from router.edge.server import Server
from router.edge.server import run as run_loop
from router.edge.tls import TlsFiles
from router.telemetry import events
from router.wiring.build import build_house
from router.wiring.built import Built
from router.wiring.leftovers import delete_leftovers
from router.wiring.panels import build_edge

if TYPE_CHECKING:
    import socket

    from router.cli.turn_log import TurnLog

_COLLECT_AFTER = 2_000
_OWN_HANDLES = 200
QUICK_EXAMPLE = "Fix the typo in this line: retrun x"
LONG_EXAMPLE = "Implement an expression parser with tests and docs, step by step, until everything passes"


class Order(Struct, frozen=True):
    reading: Reading
    host: str
    port: int
    with_ledger: bool
    began: float


class Serving:
    """Serves until told to stop."""

    _built: Built
    _server: Server
    _admission: Admission
    _record: Router
    """For other commands."""
    _leftovers: list[str]

    def __init__(self, order: Order, loaded: LoadedConfig, listener: "socket.socket", log: "TurnLog | None") -> None:
        """`log` is for a person; without one, events are logged for programs."""
        self._order, self._loaded, self._listener, self._log = order, loaded, listener, log
        self._tls = TlsFiles(loaded.tls_paths) if loaded.tls_paths is not None else None
        self._url = url_of(*listener.getsockname()[:2], is_tls=self._tls is not None)

    def run(self) -> int:
        run_loop(self._main)
        return 0

    async def _main(self) -> None:
        self._built = self._build()
        self._leftovers = await asyncio.to_thread(delete_leftovers, self._loaded, with_ledger=self._order.with_ledger)
        key = self._built.own_key if self._loaded.keys is not None else ""
        self._record = record_of(self._loaded, self._order.reading.path, self._url, key, has_ledger=self._order.with_ledger)
        if self._built.reloader is not None:
            self._built.reloader.applies.append(self._take)
        self._admission, app = build_edge(self._built, lambda: not self._server.is_stopping)
        self._server = self._make_server(app)
        if self._loaded.shared_postgres is not None:
            # Streams of jobs that run elsewhere are resumed here. Loading the pages with the first would block the loop while
            # the database answers.
            await app.load()
        if not self._admission.speedups.is_plain:
            _keep_built()
        limits = self._loaded.config.limits
        allow_handles(limits.max_in_flight, limits.max_sockets)
        try:
            await self._built.connect()
            with self._server.hear_signals():
                await self._server.serve([self._listener])
        except asyncio.CancelledError:
            pass
        finally:
            await self._close()

    def _build(self) -> Built:
        return build_house(
            self._loaded,
            with_ledger=self._order.with_ledger,
            watchers=(self._log,) if self._log is not None else (),
            address=self._url,
            load=self._order.reading.load,
        )

    def _make_server(self, app: AsgiApp) -> Server:
        return Server(
            self._admission,
            app,
            drain_seconds=self._loaded.config.limits.drain_seconds,
            on_ready=self._announce,
            on_stop=self._begin_stop,
            on_hangup=Hangup(self._built.reloader, self._stop).hear,
            stop_listening_after_seconds=self._loaded.config.server.stop_listening_after_seconds,
            tls=self._tls,
        )

    def _stop(self) -> None:
        if not self._server.is_stopping:  # a closed terminal or stopped group may be noticed twice
            self._server.stop()

    def _take(self, taken: LoadedConfig) -> None:
        allow_handles(taken.config.limits.max_in_flight, taken.config.limits.max_sockets)
        if self._tls is not None and taken.tls_paths is not None:
            try:
                self._tls.reload(taken.tls_paths)
            except CertificateUnusable as error:  # the files changed again after they were checked
                events.config_warned(warning=str(error))
        note_reload(self._record, taken)

    def _announce(self) -> None:
        took_ms = (time.perf_counter() - self._order.began) * 1000
        loaded, built = self._loaded, self._built
        note_router(self._record)  # before the ready event: commands that wait for it may ask at once
        events.server_started(
            url=self._url, config=loaded.source, targets=len(loaded.targets), simulated=loaded.is_simulated, took_ms=took_ms
        )
        built.begin()
        if self._log is not None:
            self._log.totals.read_from(built.ledger_path, time.time())
            self._log.say(welcome(loaded, self._url))
            if sys.stderr.isatty():
                stop_with_terminal(self._stop)
        away = [say_away(file.path, found.cause) for file in built.house.state.files.values() if (found := file.failing)]
        for warning in (*loaded.warnings, *away, *warn_of_expiry(loaded), *self._leftovers):
            events.config_warned(warning=warning)

    def _begin_stop(self) -> None:
        self._built.release_jobs()
        _say_stopping(self._loaded, self._admission, self._log)

    async def _close(self) -> None:
        leave_router(self._record)
        await self._built.close()
        events.server_stopped()
        if self._log is not None:
            self._log.close()


def _keep_built() -> None:
    """Exempt what is built, which lives as long as the process, from collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)


def open_turn_log() -> "TurnLog":
    from router.cli.turn_log import TurnLog  # a router that logs for programs does not need it

    return TurnLog(sys.stderr)


def _connect_command(loaded: LoadedConfig, url: str) -> str:
    server, key = loaded.config.server, f" --key-env {KEY_VARIABLE}" if loaded.keys is not None else ""
    if url == url_of(server.host, server.port, is_tls=server.tls is not None):
        return f"{command_name()} connect codex{key or ' | claude-code | opencode'}"
    return f"{command_name()} connect codex --url {url}{key}"


def _say_stopping(loaded: LoadedConfig, admission: Admission, log: "TurnLog | None") -> None:
    listens, drain = loaded.config.server.stop_listening_after_seconds, loaded.config.limits.drain_seconds
    running = admission.in_flight
    if log is None:
        events.server_stopping(running=running, sockets=admission.sockets, listens_seconds=listens, drain_seconds=drain)
        return
    finishing = f"finishing {plural(running, 'request')} within {drain:g} s" if running else ""
    if listens:
        finishing = f"serving new requests for {listens:g} s more, then finishing what runs within {drain:g} s"
    if finishing:
        log.note(f"{finishing}; Ctrl-C again stops at once")


def allow_handles(max_in_flight: int, max_sockets: int) -> int:
    """Raise the limit of file handles as far as needed and allowed: two per request. Returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * max_in_flight + max_sockets + _OWN_HANDLES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@contextlib.contextmanager
def explained(url: str) -> Iterator[None]:
    try:
        yield
    except REFUSALS as error:
        raise Ended(2, explain(error, url)) from error


def refuse_unrecorded(loaded: LoadedConfig, *, with_ledger: bool) -> None:
    try:
        check_recorded(loaded.keys, loaded.source, with_ledger=with_ledger)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


def welcome(loaded: LoadedConfig, url: str) -> str:
    lines = []
    if loaded.is_simulated:
        lines += [
            f"No model is configured ({loaded.source}), so simulated tiers answer, with placeholder text at realistic speeds.",
            f"`{init_command()}` writes a config.yaml for the keys and local servers it finds here.",
        ]
    else:
        names = ", ".join(f"{plan.target.tier} {plan.target.name}" for plan in loaded.targets)
        lines.append(f"Serving {names} ({loaded.source}).")
    lines += ["", f"Base URL    {url}/v1          (Claude Code and Anthropic SDKs: {url})"]
    if loaded.config.page:
        lines.append(f"Page        {url}/")
    lines.append(f"Client      {_connect_command(loaded, url)}")
    key = ""
    if loaded.keys is not None:
        key = f' -H "authorization: Bearer ${KEY_VARIABLE}"'
        lines.append(f"Key         export {KEY_VARIABLE}=tdm_…          (`{command_name()} keys add NAME` makes one)")
    dialect = common_dialect(loaded)
    examples = {"A quick edit": QUICK_EXAMPLE, "A long task": LONG_EXAMPLE}
    lines += ["", *(f"{title}:\n{_curl(url, dialect, words, key)}" for title, words in examples.items())]
    lines += ["", "A line for each finished turn follows. Ctrl-C stops the router.", ""]
    return "\n".join(lines)


def _curl(url: str, dialect: Dialect, words: str, key: str) -> str:
    spec = SPECS[dialect]
    body = {**spec.write_example(words), **spec.stream_fields}
    address = f"{url}/v1{spec.paths[Operation.CREATE]}"
    return f"  curl -iN {address}{key} -H 'content-type: application/json' -d '{json.dumps(body)}'"


def warn_of_expiry(loaded: LoadedConfig) -> list[str]:
    if loaded.tls_paths is None:
        return []
    certificate, now = read_certificate(loaded.tls_paths), time.time()
    return [f"server.tls.cert: {certificate.describe(now)}"] if certificate.expires_soon(now) else []
