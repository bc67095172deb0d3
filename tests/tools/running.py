"""A Tandem in the test's own loop, on a free port."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.config.load import LoadedConfig, check_config, load_config
from router.edge.admission import Admission
from router.edge.listener import Listener
from router.edge.server import Server, bind
from router.edge.tls import TlsFiles
from router.house import House
from router.wiring.build import build_house, known_names
from router.wiring.built import Built
from router.wiring.panels import build_edge
from tests.tools.waiting import later

_MAX_WAIT_SECONDS = 0.1
_LOOK_SECONDS = 0.002


@dataclass
class Running:
    url: str
    port: int
    house: House
    loaded: LoadedConfig
    admission: Admission
    built: Built
    listener: Listener
    connections: set[Any]

    async def entries(self, count: int = 1) -> list[dict]:
        """The ledger's rows, once there are `count`."""
        deadline = asyncio.get_running_loop().time() + 30
        while True:
            rows = read_entries(self.loaded.ledger_path)
            if len(rows) >= count or asyncio.get_running_loop().time() > deadline:
                return rows
            await asyncio.sleep(0.005)


def read_entries(path: Path) -> list[dict]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM entries ORDER BY sequence")]


@contextlib.asynccontextmanager
async def running(config: str, folder: Path, **more: Any) -> AsyncIterator[Running]:
    loaded = check_config(config, "test", folder, known_names())
    file = folder / "config.yaml"  # read by a reload, once a test has written it
    built = build_house(loaded, load=lambda: load_config(file, known_names()), **more)
    await built.connect()
    ready = asyncio.Event()
    listener = bind("127.0.0.1", 0)
    server: Server
    admission, app = build_edge(built, lambda: not server.is_stopping)
    tls = TlsFiles(loaded.tls_paths) if loaded.tls_paths is not None else None
    server = Server(admission, app, drain_seconds=1, on_ready=ready.set, tls=tls)
    serving = later(server.serve([listener]))
    await asyncio.wait_for(ready.wait(), 30)
    built.resume_jobs()
    port = listener.getsockname()[1]
    try:
        url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
        yield Running(url, port, built.house, loaded, admission, built, server.listeners[0], server.connections)
    finally:
        await _end(server, serving)
        await built.close()
        listener.close()


async def _end(server: Server, serving: asyncio.Task[None]) -> None:
    """Stop at once, and wait for what its callers still hear."""
    server.stop()
    server.stop()
    await asyncio.wait_for(serving, 30)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _MAX_WAIT_SECONDS
    while (server.connections or not server._is_drained()) and loop.time() < deadline:  # noqa: ASYNC110  a set has no event
        await asyncio.sleep(_LOOK_SECONDS)


def two_targets(fast: str, deep: str, *, extra: str = "", fast_extra: str = "", deep_extra: str = "") -> str:
    return f"""
ledger: {{path: test.db}}
tiers:
  fast:
    targets:
      - {{name: spark, adapter: openai_http, dialect: chat, base_url: "{fast}", model: fast-model, {fast_extra}
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
  deep:
    targets:
      - {{name: sage, adapter: openai_http, dialect: chat, base_url: "{deep}", model: deep-model, {deep_extra}
         window_tokens: 400000, accepts: [text, tools, images, files, json_schema, custom_tools, reasoning]}}
{extra}
"""


def one_dialect(dialect: str, base_url: str, *, extra: str = "") -> str:
    """A config whose tiers share one address and dialect, for any model name."""
    adapter, url = ("anthropic_http", base_url.removesuffix("/v1")) if dialect == "messages" else ("openai_http", base_url)
    rest = (
        f'adapter: {adapter}, dialect: {dialect}, base_url: "{url}", model: some-model, window_tokens: 400000, '
        f"accepts: [text, tools, images, files, json_schema, reasoning]"
    )
    return f"""
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "*": auto}}
tiers:
  fast: {{targets: [{{name: quick, {rest}}}]}}
  deep: {{targets: [{{name: thorough, {rest}}}]}}
{extra}
"""
