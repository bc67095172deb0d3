"""Asking an engine what its list of models does not say: slots of llama.cpp, windows of Ollama and LM Studio."""

from collections.abc import Callable

import orjson
from msgspec.structs import replace

from router.cli.setup.engines import Engine, engine_kind, read_loaded, read_props, read_running, windows_of
from router.cli.setup.live import Reached, fetch
from router.config.faults import KnownAdapter
from router.contract.relay import Endpoint, Upstream
from router.contract.request import Json
from router.contract.target import Timeouts

_OLLAMA, _LM_STUDIO, _LLAMA_CPP = "ollama", "lmstudio", "llamacpp"
_PATHS = {_LLAMA_CPP: "/props", _OLLAMA: "/api/ps", _LM_STUDIO: "/api/v0/models"}
_WINDOWS: dict[str, Callable[[Json], dict[str, int]]] = {_OLLAMA: read_running, _LM_STUDIO: read_loaded}


async def ask_engine(
    upstream: Upstream, adapter: KnownAdapter, endpoint: Endpoint, reached: Reached, within_seconds: float, kind: str = ""
) -> Engine:
    """What an engine says of itself. `kind` is what to take it for where its list of models does not tell."""
    kind = engine_kind(reached.listed, reached.server) or kind
    windows = windows_of(reached.listed)
    told = await _ask(upstream, adapter, endpoint, _PATHS[kind], within_seconds) if kind in _PATHS else None
    slots = read_props(told) if kind == _LLAMA_CPP else None
    if kind in _WINDOWS:
        windows |= _WINDOWS[kind](told)
    return Engine(kind, slots, windows)


async def _ask(upstream: Upstream, adapter: KnownAdapter, endpoint: Endpoint, path: str, within_seconds: float) -> Json:
    """What is at a path next to `/v1`; None where nothing is."""
    request = adapter.list_models(endpoint, Timeouts(within_seconds, within_seconds, within_seconds))
    if request is None:
        return None
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    sink = await fetch(upstream, replace(request, url=f"{root}{path}"), within_seconds)
    if sink is None or sink.error is not None or sink.status != 200:
        return None
    try:
        told: Json = orjson.loads(bytes(sink.body))
    except orjson.JSONDecodeError:
        return None
    return told
