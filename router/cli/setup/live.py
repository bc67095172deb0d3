"""Asks providers and targets through the router's own client: `tandem serve` reaches what is reached here."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec
import orjson

from router.cli.progress import Progress
from router.cli.setup.engines import (
    Engine,
    ListedModel,
    Reached,
    engine_kind,
    read_listed,
    read_loaded,
    read_props,
    read_running,
    windows_of,
)
from router.cli.setup.refusals import explain_refusal, is_page, words_of
from router.config.faults import KnownAdapter, close_to
from router.config.targets import TargetPlan
from router.contract.errors import (
    TandemError,
    UpstreamAuth,
    UpstreamCut,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.exchange import Arrival, Observers
from router.contract.facts import FirstToken
from router.contract.relay import Endpoint, Upstream, UpstreamCall, UpstreamRequest
from router.contract.request import Json
from router.contract.sinks import Collected
from router.contract.target import Timeouts
from router.contract.words import DEFAULT_DIALECT, Operation
from router.dialects.engine_words import read_loading
from router.dialects.error_bodies import read_error
from router.dialects.requests import read_request
from router.dialects.table import SPECS
from router.dispatch.outgoing import Reachable, prepare
from router.house import House
from router.loop.tasks import spawn
from router.telemetry.log import report_defect
from router.upstream.address import Proxy, read_address
from router.wiring.build import known_names

_QUIET_SECONDS = 2.0
_MAX_BYTES = 8 << 20
_REQUEST = "req_check"
_HINTS = {
    UpstreamAuth.code: "check api_key: it may belong to another provider, be revoked, or have no credit",
    UpstreamModel.code: "set model to a name that its provider knows",
    UpstreamCut.code: "check dialect: it may speak another one",
    UpstreamMalformed.code: "check dialect and base_url: it may speak another dialect there",
    UpstreamTimeout.code: "try again, or raise --timeout",
    UpstreamUnreachable.code: "check base_url, the network, and HTTPS_PROXY where one is needed",
}
_OLLAMA, _LM_STUDIO, _LLAMA_CPP = "ollama", "lmstudio", "llamacpp"
_PATHS = {_LLAMA_CPP: "/props", _OLLAMA: "/api/ps", _LM_STUDIO: "/api/v0/models"}
_WINDOWS: dict[str, Callable[[Json], dict[str, int]]] = {_OLLAMA: read_running, _LM_STUDIO: read_loaded}
_WORDS = "Answer with the word ok."
_MAX_ANSWER_TOKENS = 16
_T = TypeVar("_T")


async def look_at(
    upstream: Upstream,
    adapter: KnownAdapter,
    endpoint: Endpoint,
    within_seconds: float,
    *,
    kind: str = "",
    call: Callable[[], Awaitable["Reached"]] | None = None,
) -> Reached:
    """Ask for the models, then with `call` for an answer, then an engine for windows and slots.

    Engines are last: some load a model, and know its window, only with a call. `kind` is assumed for an engine that does not
    identify itself. The endpoint's model must be listed.
    """
    reached = await _ask_models(upstream, adapter, endpoint, within_seconds)
    if endpoint.model:
        reached = judge_model(reached, endpoint.model)
    if call is not None and not reached.problem and not endpoint.takes_callers_key:
        asked = await call()
        reached = replace(reached, problem=asked.problem, hint=asked.hint, ttft_seconds=asked.ttft_seconds)
    if not reached.listed:
        return reached
    return replace(reached, engine=await _ask_engine(upstream, adapter, endpoint, reached, within_seconds, kind))


async def _ask_models(upstream: Upstream, adapter: KnownAdapter, endpoint: Endpoint, within_seconds: float) -> Reached:
    request = adapter.list_models(endpoint, Timeouts(within_seconds, within_seconds, within_seconds))
    if request is None:
        return Reached()
    sink = await _fetch(upstream, request, within_seconds)
    if sink is None:
        return Reached(f"did not answer in {within_seconds:g} s", "try again, or raise --timeout")
    if sink.error is not None:
        problem = sink.error.message.removeprefix(f'target "{request.target}" ')
        return Reached(problem, _hint_for(problem, endpoint))
    reached = _read_listing(sink, endpoint)
    kind = engine_kind(reached.listed, sink.fields.get("server", ""))
    return replace(reached, skew_seconds=_skew(sink.fields.get("date", "")), engine=Engine(kind))


async def _fetch(upstream: Upstream, request: UpstreamRequest, within_seconds: float) -> Collected | None:
    """None after a timeout."""
    sink = Collected(_MAX_BYTES)
    return sink if await _is_over(upstream.open(request, sink), sink, within_seconds) else None


async def _is_over(call: UpstreamCall, sink: Collected, within_seconds: float) -> bool:
    try:
        async with asyncio.timeout(within_seconds):
            await sink.over.wait()
    except TimeoutError:
        return False
    finally:
        call.cancel()
    return True


def _hint_for(problem: str, endpoint: Endpoint) -> str:
    address = read_address(endpoint.base_url)
    host = address.host
    if address.proxy is not None and "the proxy in" in problem:
        return _hint_for_proxy(problem, address.proxy, host)
    if "TLS" in problem:
        return "set tls.ca_file for a certificate of your own, or http:// for a server without TLS"
    if "resolve" in problem:
        return f"check the spelling of {host}, and the connection to the network"
    return f"is a server running at {endpoint.base_url}?"


def _hint_for_proxy(problem: str, proxy: Proxy, host: str) -> str:
    """Never has the password."""
    where = f"{proxy.host}:{proxy.port}"
    if "(407)" in problem:
        return f"set {proxy.variable} to http://USER:PASSWORD@{where}, with special characters percent-encoded (@ is %40)"
    if not proxy.host or "not supported" in problem:
        return f"set {proxy.variable} to an http:// proxy, or add {host} to NO_PROXY to reach it without one"
    if "refused" in problem:
        return f"have {host} allowed at the proxy {where}, or add {host} to NO_PROXY to reach it without the proxy"
    return f"check that a proxy runs at {where} ({proxy.variable}), or add {host} to NO_PROXY to reach it without one"


def _read_listing(sink: Collected, endpoint: Endpoint) -> Reached:
    status, body = sink.status, bytes(sink.body)
    if status in (401, 403) and endpoint.takes_callers_key:
        return Reached()
    if status in (404, 405, 501):
        return Reached()  # a list is optional, and a wrong base_url shows with the first call
    if status != 200:
        return _read_refusal(sink, endpoint)
    listed = _read_models(body)
    if listed is None and is_page(sink.fields, body):
        title = words_of(body, endpoint)
        hint = "check base_url: it usually ends in /v1. If this is a login page of your network, sign in there first"
        return Reached(f"answered with a web page{f' ({title})' if title else ''}", hint)
    if listed is None:
        return Reached("answered with something other than a list of models", "check base_url: it usually ends in /v1")
    return Reached(listed=listed)


def _read_refusal(sink: Collected, endpoint: Endpoint) -> Reached:
    status, body = sink.status, bytes(sink.body)
    if status == 503 and read_loading(body):
        problem = f'loading: it says "{words_of(body, endpoint)}" ({status})'
        return Reached(problem, "wait until its model is loaded, then try again", is_loading=True)
    return explain_refusal(status, sink.fields, body, endpoint)


def _read_models(body: bytes) -> tuple[ListedModel, ...] | None:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    listed = content.get("data", content.get("models")) if isinstance(content, dict) else content
    if not isinstance(listed, list):
        return None
    return tuple(model for entry in listed if isinstance(entry, dict) and (model := read_listed(entry)) is not None)


def _skew(date: str) -> float | None:
    try:
        return (datetime.now(UTC) - parsedate_to_datetime(date)).total_seconds()
    except (ValueError, TypeError):
        return None


def judge_model(reached: Reached, model: str) -> Reached:
    if reached.problem or not reached.models or model in reached.models or f"{model}:latest" in reached.models:
        return reached
    near = close_to(model, reached.models) or f"it lists {', '.join(reached.models[:5])} … "
    return replace(reached, problem=f"does not list the model {model}", hint=f"{near}set model in its block".strip())


async def ask_target(house: House, plan: TargetPlan, within_seconds: float) -> Reached:
    """Send a target a short prompt like any request, and time its first token."""
    arrival, sink = _write_question(plan), Collected(_MAX_BYTES)
    quiet = House(house.plan, msgspec.structs.replace(house.state, observers=Observers((), report_defect)), house.clock)
    exchange = quiet.begin(arrival)
    try:
        async with asyncio.timeout(within_seconds):
            await quiet.serve(exchange, sink)
    except TimeoutError:
        return Reached(f"did not finish a short answer in {within_seconds:g} s", "try again, or raise --timeout")
    if sink.error is not None or sink.status != 200:
        code, message = _read_error(sink)
        if code not in (UpstreamUnreachable.code, UpstreamTimeout.code):
            refusal = await _hear_refusal(house, plan, arrival, within_seconds)
            if refusal is not None:
                return replace(refusal, problem=f"does not answer: {refusal.problem}")
        said = message.replace(f" (request {_REQUEST})", "").replace(f'target "{plan.target.name}" ', "")
        return Reached(f"does not answer: {said}", _HINTS.get(code, "look at its provider's console: balance, limits, terms"))
    first = exchange.last(FirstToken)
    return Reached(ttft_seconds=(first.at if first is not None else house.clock()) - exchange.began)


def _write_question(plan: TargetPlan) -> Arrival:
    spec = SPECS[DEFAULT_DIALECT]
    limit = {spec.limit_field: _MAX_ANSWER_TOKENS}
    body = {**spec.write_example(_WORDS), **spec.stream_fields, **limit, "model": plan.target.name}
    return Arrival(_REQUEST, spec.name, Operation.CREATE, {}, orjson.dumps(body))


async def _hear_refusal(house: House, plan: TargetPlan, arrival: Arrival, within_seconds: float) -> Reached | None:
    """The target's own words for a failed question, which callers mostly do not get; None if it answers now or not at all."""
    adapter = known_names().adapters[plan.adapter](plan.endpoint, plan.settings, house.state.upstream)
    reachable = Reachable(plan.target, adapter, plan.endpoint.model, plan.fit)
    sink = Collected(_MAX_BYTES)
    try:
        call = adapter.open(prepare(read_request(arrival), reachable, 0), sink)
    except TandemError:
        return None
    if not await _is_over(call, sink, within_seconds) or sink.error is not None or sink.status in (0, 200):
        return None
    return explain_refusal(sink.status, sink.fields, bytes(sink.body), plan.endpoint)


def _read_error(sink: Collected) -> tuple[str, str]:
    if sink.error is not None:
        return sink.error.code, sink.error.message
    error, message = read_error(bytes(sink.body))
    return str(error.get("code")), f"{sink.status} {message}".strip()[:300]


async def gather(name: str, jobs: Sequence[Coroutine[None, None, _T]]) -> list[_T]:
    """Run all concurrently, with a progress bar after two seconds."""
    tasks = [spawn(job, name=name) for job in jobs]
    try:
        waiting = (await asyncio.wait(tasks, timeout=_QUIET_SECONDS))[1] if tasks else ()
        if waiting:
            with Progress(name, len(tasks)) as progress:
                progress.advance(len(tasks) - len(waiting))
                while waiting:
                    done, waiting = await asyncio.wait(waiting, timeout=0.2)
                    progress.advance(len(done))
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


async def _ask_engine(
    upstream: Upstream, adapter: KnownAdapter, endpoint: Endpoint, reached: Reached, within_seconds: float, assumed: str
) -> Engine:
    kind = reached.engine.kind or assumed
    windows = windows_of(reached.listed)
    told = await _ask(upstream, adapter, endpoint, _PATHS[kind], within_seconds) if kind in _PATHS else None
    slots = read_props(told) if kind == _LLAMA_CPP else None
    if kind in _WINDOWS:
        windows |= _WINDOWS[kind](told)
    return replace(reached.engine, slots=slots, windows=windows)


async def _ask(upstream: Upstream, adapter: KnownAdapter, endpoint: Endpoint, path: str, within_seconds: float) -> Json:
    """None without JSON at a path next to `/v1`."""
    request = adapter.list_models(endpoint, Timeouts(within_seconds, within_seconds, within_seconds))
    if request is None:
        return None
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    sink = await _fetch(upstream, msgspec.structs.replace(request, url=f"{root}{path}"), within_seconds)
    if sink is None or sink.error is not None or sink.status != 200:
        return None
    try:
        told: Json = orjson.loads(bytes(sink.body))
    except orjson.JSONDecodeError:
        return None
    return told
