"""Storing finished responses: an observer of requests."""

import contextlib
import time
from collections.abc import Callable, Mapping

import orjson

from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Read, ResponseCompleted
from router.contract.request import JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.table import SPECS
from router.responses.items import input_items
from router.responses.resume import PREVIOUS, Continued


def is_kept(view: RequestView) -> bool:
    """Whether the answer is kept: a Responses create without `store: false`, whose history is known here."""
    if not SPECS[view.dialect].continues_responses or view.body.get("store") is False:
        return False
    return view.operation is Operation.CREATE and not view.body.get(PREVIOUS) and not view.body.get("conversation")


class ResponseKeeper:
    """Hands each response, as its caller saw it, to the store. One that is nested too deeply to be written is not kept."""

    def __init__(self, store: ResponseStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {ResponseCompleted: self._keep}

    def _keep(self, exchange: Exchange, completed: ResponseCompleted) -> None:
        read = exchange.last(Read)
        if read is not None:
            with contextlib.suppress(orjson.JSONEncodeError):
                stored = record_response(read.view, completed.target, self._clock(), completed.response)
                self._store.keep(stored, for_long=read.view.body.get("store") is True)


def record_response(view: RequestView, target: Target, at: float, response: JsonObject) -> StoredResponse:
    """All that the model was given, and what it answered.

    A target that was told the whole conversation does not know that the request continues a response; we do.
    """
    continued = view.continued
    if isinstance(continued, Continued):
        history = continued.transcript()
        response = {**response, PREVIOUS: continued.body[PREVIOUS]}
    else:
        history = Transcript([], []).then(input_items(view.body), "")
    return StoredResponse.write(view.caller, target.name, at, history, response)
