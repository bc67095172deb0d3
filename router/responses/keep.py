"""Storing finished responses: an observer of requests."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from router.contract.digits import with_digits
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Fact, Read, ResponseCompleted
from router.contract.request import JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.fields import as_list
from router.dialects.table import SPECS
from router.responses.items import input_items, read_ids
from router.responses.resume import PREVIOUS, Continued
from router.responses.threads import HeldThread, record_message

_KIND = "responses"


def is_kept(view: RequestView, *, on_socket: bool = False) -> bool:
    """Whether the answer is kept: one in a thread, or to a Responses create of a known history, unless it says `store: false`.

    A socket goes on from its own responses even then: they are gone with it.
    """
    if isinstance(view.continued, HeldThread):
        return view.operation is Operation.CREATE
    if not SPECS[view.dialect].continues_responses or (view.body.get("store") is False and not on_socket):
        return False
    return view.operation is Operation.CREATE and not view.body.get(PREVIOUS) and not view.body.get("conversation")


class ResponseKeeper:
    """Hands each response, as its caller saw it, to the store. One that is nested too deeply to be written is not kept."""

    def __init__(self, store: ResponseStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {ResponseCompleted: self._keep}

    def _keep(self, exchange: Exchange, completed: ResponseCompleted) -> None:
        read, decided = exchange.last(Read), exchange.last(Decided)
        if read is None:
            return
        view, session = read.view, decided.decision.turn.session if decided is not None else ""
        arrival, response = exchange.arrival, completed.response
        is_job = arrival.job is not None
        if is_job:
            response = {**response, "id": arrival.job}  # the only one that its caller knows, whatever its target calls it
        store, at = self._store, self._clock()
        try:
            written = keep_answer(store, view, completed.target, at, response, session, arrival.responses, is_job)
        except orjson.JSONEncodeError:
            return
        if written is not None:
            confirm(exchange, written)


def confirm(exchange: Exchange, written: "asyncio.Future[Any]") -> None:
    """Have the answer's last bytes wait until other routers find the response."""
    if exchange.confirming is not None:
        exchange.confirming.wait_for(_KIND, written)


def keep_answer(
    store: ResponseStore,
    view: RequestView,
    target: Target | None,
    at: float,
    answer: JsonObject,
    session: str = "",
    socket_store: ResponseStore | None = None,
    is_job: bool = False,
) -> "asyncio.Future[Any] | None":
    """Store what a later request may go on from: a response, or a thread up to an answer. No target: the router answered.

    `socket_store` is a WebSocket's own, which keeps the response even where nobody else may continue from it. Who asks for
    background work asks for a response that is kept. Returns what to wait for until other routers find it.
    """
    if isinstance(view.continued, HeldThread):
        return store.keep(record_message(view, target, at, answer, session or view.continued.session), for_long=False)
    is_stored = view.body.get("store")
    if is_stored is False:
        answer = {**answer, "store": False}  # whatever the target says: it was told not to, and is not asked to remember
    response = record_response(view, target, at, answer)
    if socket_store is not None:
        socket_store.keep(response, for_long=False)
    return store.keep(response, for_long=is_job or is_stored is True) if is_stored is not False else None


def record_response(view: RequestView, target: Target | None, at: float, response: JsonObject) -> StoredResponse:
    """All that the model was given, and what it answered. No target: the router itself answered.

    A target that was told the whole conversation does not know that the request continues a response; we do.
    """
    continued = view.continued
    if isinstance(continued, Continued):
        history = continued.transcript()
        if PREVIOUS in continued.body:
            response = {**response, PREVIOUS: continued.body[PREVIOUS]}
    else:
        history = Transcript([], []).then(input_items(with_digits(view.raw, view.body)), "")
    ids = read_ids(history.items, as_list(response.get("output")))
    return StoredResponse.write(view.caller, target.name if target else "", at, history, response, ids)
