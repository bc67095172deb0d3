"""Observer that stores finished responses."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

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
from router.responses.resume import PREVIOUS
from router.responses.threads import HeldThread, keeper_of

_KIND = "responses"


def is_kept(view: RequestView, *, on_socket: bool = False) -> bool:
    """Whether to keep the answer: in a thread, or to a Responses create with known history and without `store: false`.

    A socket continues its own responses even then, until it closes.
    """
    if isinstance(view.continued, HeldThread):
        return view.operation is Operation.CREATE
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
        read, decided = exchange.last(Read), exchange.last(Decided)
        if read is None:
            return
        view, session = read.view, decided.decision.turn.session if decided is not None else ""
        job, response = exchange.arrival.job, completed.response
        if job is not None:
            response = {**response, "id": job}  # the only id its caller knows
        with suppress(orjson.JSONEncodeError):
            keep_answer(exchange, self._store, view, completed.target, self._clock(), response, session)


def keep_answer(
    exchange: Exchange,
    store: ResponseStore,
    view: RequestView,
    target: Target | None,
    at: float,
    answer: JsonObject,
    session: str = "",
) -> None:
    """Store an answer to continue from. Its last bytes wait until other routers can find it.

    A WebSocket's own store keeps a response that cannot be continued elsewhere. Background work needs a kept response.
    """
    arrival = exchange.arrival
    is_stored = None if isinstance(view.continued, HeldThread) else view.body.get("store")
    if is_stored is False:
        answer = {**answer, "store": False}  # the target was told not to store, whatever it claims
    response = record_response(view, target, at, answer, session)
    if arrival.responses is not None:
        arrival.responses.keep(response, for_long=False)
    if is_stored is not False:
        written = store.keep(response, for_long=arrival.job is not None or is_stored is True)
        if written is not None and exchange.confirming is not None:
            exchange.confirming.wait_for(_KIND, written)


def record_response(
    view: RequestView, target: Target | None, at: float, response: JsonObject, session: str = ""
) -> StoredResponse:
    """The model's input and its answer; ours without a target. Only we know that a resent conversation continues one."""
    caller, continued, ids = view.caller, view.continued, frozenset[str]()
    if continued is None:
        items = input_items(with_digits(view.raw, view.body))
        history = Transcript(items, [""] * len(items))
    else:
        history = continued.transcript()
        if PREVIOUS in continued.body:
            response = {**response, PREVIOUS: continued.body[PREVIOUS]}
    if isinstance(continued, HeldThread):
        caller, response = keeper_of(caller), continued.record(response, session)
    else:
        ids = read_ids(history.items, as_list(response.get("output")))
    return StoredResponse.write(caller, target.name if target else "", at, history, response, ids)
