"""How an answer reaches its caller: as it comes, captured on its way, or held back and compacted; some are made here."""

from typing import Protocol

import orjson
from msgspec import Struct

from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, Ending
from router.contract.relay import Sink, send_whole
from router.contract.request import JsonObject, RequestView
from router.contract.signals import TokenCounter
from router.contract.stores import ResponseStore
from router.contract.words import Operation, Outcome
from router.dialects.headers import id_headers
from router.dialects.table import SPECS
from router.responses.capture import CapturingMessageSink, CapturingSink
from router.responses.compact import BufferingSink, write_compaction
from router.responses.keep import is_kept
from router.responses.own_answer import is_prewarm, say_here


class Reply(Struct):
    """The way to the caller. `sink` takes what a target answers; `finish` is called once that is over."""

    sink: Sink

    def finish(self, ending: Ending) -> Ending:
        """Do what is left to be done. An answer that went out as it came leaves nothing."""
        return ending


class _Compaction(Reply):
    """Holds the summary back, and sends the compaction that is made with it."""

    sink: BufferingSink
    caller: Sink
    exchange: Exchange
    view: RequestView

    def finish(self, ending: Ending) -> Ending:
        if ending.outcome is Outcome.SERVED:
            opened = self.exchange.last(AttemptOpened)
            target = opened.target.name if opened else ""
            send_whole(self.caller, self.sink.headers, write_compaction(self.view, self.sink.body, target))
        return ending


def reply_to(exchange: Exchange, view: RequestView, caller: Sink) -> Reply:
    """How this request is to be answered."""
    spec = SPECS[view.dialect]
    if not spec.continues_responses and view.continued is None:
        return Reply(caller)
    if exchange.arrival.operation is Operation.COMPACT:
        return _Compaction(BufferingSink(caller), caller, exchange, view)
    if is_kept(view, on_socket=exchange.arrival.responses is not None):
        sink = CapturingMessageSink if spec.has_threads else CapturingSink
        return Reply(sink(caller, exchange, is_streaming=view.is_streaming))
    return Reply(caller)


class Kept(Protocol):
    """What outlives a request, as far as it is needed here."""

    @property
    def counter(self) -> TokenCounter: ...
    @property
    def responses(self) -> ResponseStore: ...


async def answer_here(view: RequestView, kept: Kept, own: ResponseStore | None, caller: Sink) -> bool:
    """Answer what needs no target, and say whether it did: a count, which is the same for all; on a socket, a prewarm."""
    if own is not None and is_prewarm(view):
        say_here(view, "", kept.responses, caller, own)
        return True
    if view.operation is not Operation.COUNT_TOKENS or not SPECS[view.dialect].counts_tokens_here:
        return False
    counted = await kept.counter.count_or_estimate(view)
    body: JsonObject = {"object": "response.input_tokens", "input_tokens": counted.tokens}
    send_whole(caller, (("content-type", "application/json"), *id_headers(view.id)), orjson.dumps(body))
    return True
