"""Tandem for Python programs: `decide` says where a request would go, `build_app` is the router as an ASGI app.

A policy of your own imports its types from here: `PolicyConfig`, the opinions, and what it reads.

These names keep their meaning between versions, as settings and commands do; nothing else in `router` is promised.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import structlog
import yaml

from router.config.faults import ConfigError, Fault
from router.config.load import LoadedConfig, check_config, find_config, load_config
from router.config.reading import expand
from router.contract.decision import Decision
from router.contract.errors import BadRequest, TandemError, UpgradeRequired
from router.contract.exchange import Arrival
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import Target
from router.contract.words import DEFAULT_DIALECT, Operation, Tier, TurnKind
from router.edge.http.asgi import App, Receive, Scope, Send
from router.edge.http.refuse import send_refusal
from router.edge.routes import dialect_of_path, new_request_id
from router.telemetry import events
from router.wiring.build import build_house, known_names
from router.wiring.built import Built
from router.wiring.panels import build_edge

__all__ = [
    "ConfigError",
    "ConfigSource",
    "Decision",
    "Insist",
    "Lean",
    "Opinion",
    "PolicyConfig",
    "Rank",
    "RequestView",
    "RuleOut",
    "Signals",
    "TandemApp",
    "TandemError",
    "Target",
    "Tier",
    "TurnKind",
    "build_app",
    "decide",
]

ConfigSource = str | os.PathLike[str] | Mapping[str, object] | None
"""A config file, its settings, or None for the config that `tandem serve` would find from the current folder."""

_NO_LIFESPAN = "the app has not been started: use a server that sends lifespan events, or `async with build_app(…) as app`"
_EXTENSION = "websocket.http.response"


def decide(
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]] = (),
    config: ConfigSource = None,
) -> Decision:
    """Say which tier would serve these Chat Completions messages, and why. No target is called and nothing is recorded.

    What the ledger of that config has taught counts, as it does for `tandem explain`. Raises `ConfigError` for a config that
    cannot be used, and `TandemError` for messages that the router would refuse.
    """
    loaded = _load(config)
    body: dict[str, object] = {"model": "auto", "messages": list(messages)}
    if tools:
        body["tools"] = list(tools)
    try:
        raw = orjson.dumps(body, default=dict)  # a mapping that is not a dict becomes one
    except TypeError as error:
        raise BadRequest(f"messages and tools must be JSON: {error}") from error
    with ThreadPoolExecutor(1) as thread:  # a notebook calls this where a loop is running, and a loop cannot run inside it
        return thread.submit(asyncio.run, _decide(loaded, raw)).result()


def build_app(config: ConfigSource = None) -> "TandemApp":
    """The router of `tandem serve` as an ASGI app. Raises `ConfigError` for a config that cannot be used."""
    found = find_config(None) if config is None else config
    return TandemApp(_load(found), lambda: _load(found))


class TandemApp:
    """An ASGI app. It opens its ledger when it starts (lifespan, or `async with`), and closes it when it stops."""

    def __init__(self, loaded: LoadedConfig, load: Callable[[], LoadedConfig] | None = None) -> None:
        self._loaded, self._load = loaded, load
        self._built: Built | None = None
        self._app: App | None = None

    async def __aenter__(self) -> "TandemApp":
        if not structlog.is_configured():  # by a program that logs with it too
            events.set_up_logging()
        self._built = built = build_house(self._loaded, load=self._load)
        _, self._app = build_edge(built, lambda: self._app is not None)
        built.begin()
        for warning in self._loaded.warnings:
            events.config_warned(warning=warning)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        built, self._built, self._app = self._built, None, None
        if built is not None:
            await built.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is None:
            raise RuntimeError(_NO_LIFESPAN)
        elif scope["type"] == "websocket":
            await _refuse_socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.__aenter__()
        except Exception as error:  # noqa: BLE001  the server reports it and ends, whatever it is
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})


async def _decide(loaded: LoadedConfig, raw: bytes) -> Decision:
    built = build_house(loaded, with_ledger=False)
    try:
        built.learn(loaded.ledger_path)
        return (await built.house.decide(Arrival("req_dry_run", DEFAULT_DIALECT, Operation.CREATE, {}, raw))).decision
    finally:
        built.house.state.counter.close()


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a client whose WebSocket cannot be served to HTTP, with the status that `tandem serve` has for it, if possible."""
    await receive()
    if _EXTENSION not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1000})
        return

    async def send_before_accept(message: MutableMapping[str, Any]) -> None:
        told = {**message, "type": f"websocket.{message['type']}"}
        if "headers" in told:
            told["headers"] = [(name, value) for name, value in told["headers"] if name != b"connection"]  # the server's own
        await send(told)

    refusal = UpgradeRequired("WebSockets are not served here. Send the request over HTTP")
    await send_refusal(send_before_accept, refusal, dialect_of_path(scope["path"]), new_request_id())


def _load(config: ConfigSource) -> LoadedConfig:
    known = known_names()
    if isinstance(config, Mapping):
        return check_config(_write(config), "config", Path.cwd(), known)
    return load_config(find_config(None) if config is None else expand(os.fspath(config)), known)


class _PlainDumper(yaml.SafeDumper):
    """YAML without anchors, which a config may not have: settings that are used twice are written twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _write(settings: Mapping[str, object]) -> str:
    """Settings as the text of a config, so that they are checked as a file is."""
    try:
        return yaml.dump(dict(settings), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        problem = f"{error.args[-1]!r} is a {type(error.args[-1]).__name__}, which no setting takes"
        raise ConfigError("config", [Fault("config", problem, "use the types of YAML: text, numbers, lists, dicts")]) from error
