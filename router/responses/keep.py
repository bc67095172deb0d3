"""Observer that stores finished responses."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import orjson

from router.contract.digits import as_written, with_digits
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Read, ResponseCompleted
from router.contract.parts import LARGE_BYTES, write_parts
from router.contract.request import JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse, WrittenHistory
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.fields import as_list
from router.dialects.table import SPECS
from router.loop.tasks import spawn_started
from router.responses.items import input_items, read_ids
from router.responses.resume import PREVIOUS

_KIND = "responses"


def is_kept(view: RequestView, *, on_socket: bool = False) -> bool:
    """Whether to keep the answer: to a Responses create with known history and without `store: false`.

    A socket continues its own responses even then, until it closes.
    """
    if not SPECS[view.dialect].continues_responses or (view.body.get("store") is False and not on_socket):
        return False
    return view.operation is Operation.CREATE and not view.body.get(PREVIOUS) and not view.body.get("conversation")


class ResponseKeeper:
    """Stores each response as its caller saw it, unless it is nested too deeply."""

    def __init__(self, store: ResponseStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {ResponseCompleted: self._keep}

    def _keep(self, exchange: Exchange, completed: ResponseCompleted) -> None:
        read = exchange.last(Read)
        if read is None:
            return
        job, response = exchange.arrival.job, completed.response
        if job is not None:
            response = {**response, "id": job}  # the only id its caller knows
        with suppress(orjson.JSONEncodeError):
            keep_answer(exchange, self._store, read.view, completed.target, self._clock(), response)


def keep_answer(
    exchange: Exchange,
    store: ResponseStore,
    view: RequestView,
    target: Target | None,
    at: float,
    answer: JsonObject,
) -> None:
    """Store an answer to continue from. Its last bytes wait until other routers can find it.

    A WebSocket's own store keeps a response that cannot be continued elsewhere. Background work needs a kept response.
    """
    arrival = exchange.arrival
    is_stored = view.body.get("store")
    if is_stored is False:
        answer = {**answer, "store": False}  # the target was told not to store, whatever it claims
    response = record_response(view, target, at, answer, exchange.written)
    if arrival.responses is not None:
        arrival.responses.keep(response, for_long=False)
    if is_stored is not False:
        written = store.keep(response, for_long=arrival.job is not None or is_stored is True)
        if written is not None and exchange.confirming is not None:
            exchange.confirming.wait_for(_KIND, written)


def record_response(
    view: RequestView,
    target: Target | None,
    at: float,
    response: JsonObject,
    written: WrittenHistory | None = None,
) -> StoredResponse:
    """The model's input and its answer; ours without a target. Only we know that a resent conversation continues one."""
    caller, continued, maker = view.caller, view.continued, target.name if target else ""
    if continued is not None and PREVIOUS in continued.body:
        response = {**response, PREVIOUS: continued.body[PREVIOUS]}
    ids = read_ids(as_list(response.get("output")))
    if written is not None:
        raw = b"".join((written.raw, b',"response":', orjson.dumps(response, default=as_written), b"}"))
        return StoredResponse(str(response["id"]), caller, maker, at, raw, written.item_ids | ids)
    history = _history_of(view)
    return StoredResponse.write(caller, maker, at, history, response, ids | read_ids(history.items))


def write_ahead(exchange: Exchange, view: RequestView) -> None:
    """Write a large conversation off the loop, before its target is called. Call this only if the answer is kept."""
    if len(view.raw) > LARGE_BYTES:
        spawn_started(_write_ahead(exchange, view), name=f"{exchange.id} write ahead")


async def _write_ahead(exchange: Exchange, view: RequestView) -> None:
    with suppress(orjson.JSONEncodeError):
        exchange.keep_written(await exchange.off_loop(write_history, view))


def write_history(view: RequestView) -> WrittenHistory:
    """Raises `orjson.JSONEncodeError` if it is nested too deeply."""
    history = _history_of(view)
    raw = write_parts({"items": history.items, "makers": list(history.origins)}, as_written, is_open=True)
    return WrittenHistory(raw, read_ids(history.items))


def _history_of(view: RequestView) -> Transcript:
    if view.continued is not None:
        return view.continued.transcript()
    items = input_items(with_digits(view.raw, view.body))
    return Transcript(items, [""] * len(items))
