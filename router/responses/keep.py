"""Storing finished responses: an observer of requests."""

import contextlib
import time
from collections.abc import Callable, Mapping

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
        with contextlib.suppress(orjson.JSONEncodeError):
            socket_store = exchange.arrival.responses
            keep_answer(self._store, view, completed.target, self._clock(), completed.response, session, socket_store)


def keep_answer(
    store: ResponseStore,
    view: RequestView,
    target: Target | None,
    at: float,
    answer: JsonObject,
    session: str = "",
    socket_store: ResponseStore | None = None,
) -> None:
    """Store what a later request may go on from: a response, or a thread up to an answer. No target: the router answered.

    `socket_store` is a WebSocket's own, which keeps the response even where nobody else may continue from it.
    """
    if isinstance(view.continued, HeldThread):
        store.keep(record_message(view, target, at, answer, session or view.continued.session), for_long=False)
        return
    is_stored = view.body.get("store")
    if is_stored is False:
        answer = {**answer, "store": False}  # whatever the target says: it was told not to, and is not asked to remember
    response = record_response(view, target, at, answer)
    if socket_store is not None:
        socket_store.keep(response, for_long=False)
    if is_stored is not False:
        store.keep(response, for_long=is_stored is True)


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
