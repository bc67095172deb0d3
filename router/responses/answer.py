"""How an answer reaches its caller: as it comes, captured on its way, or held back and compacted; some are made here."""

import orjson

from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened
from router.contract.relay import Sink, send_whole
from router.contract.request import JsonObject, RequestView
from router.contract.signals import TokenCounter
from router.contract.words import Operation
from router.dialects.headers import REQUEST_ID
from router.dialects.table import SPECS
from router.responses.capture import CapturingSink
from router.responses.compact import BufferingSink, write_compaction
from router.responses.keep import is_kept


class Reply:
    """The way to the caller. `sink` takes what a target answers; `finish` is called once that is complete."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def finish(self) -> None:
        """The answer went out as it came: nothing is left to do."""


class _Compaction(Reply):
    """Holds the summary back, and sends the compaction that is made with it."""

    def __init__(self, caller: Sink, exchange: Exchange, view: RequestView) -> None:
        self._held = BufferingSink(caller)
        super().__init__(self._held)
        self._caller, self._exchange, self._view = caller, exchange, view

    def finish(self) -> None:
        opened = self._exchange.last(AttemptOpened)
        target = opened.target.name if opened else ""
        send_whole(self._caller, self._held.headers, write_compaction(self._view, self._held.body, target))


def reply_to(exchange: Exchange, view: RequestView, caller: Sink) -> Reply:
    """How this request is to be answered."""
    if exchange.arrival.operation is Operation.COMPACT:
        return _Compaction(caller, exchange, view)
    if is_kept(view):
        return Reply(CapturingSink(caller, exchange, is_streaming=view.is_streaming))
    return Reply(caller)


async def answer_here(view: RequestView, counter: TokenCounter, caller: Sink) -> bool:
    """Answer what needs no target: every target may be asked for the same count, and none need be. Says whether it did."""
    if view.operation is not Operation.COUNT_TOKENS or not SPECS[view.dialect].counts_tokens_here:
        return False
    counted = await counter.count_or_estimate(view)
    body: JsonObject = {"object": "response.input_tokens", "input_tokens": counted.tokens}
    send_whole(caller, (("content-type", "application/json"), (REQUEST_ID, view.id)), orjson.dumps(body))
    return True
