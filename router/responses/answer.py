"""How an answer reaches its caller: as it comes, captured on its way, or held back and compacted."""

from msgspec import Struct

from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, Ending
from router.contract.request import RequestView
from router.contract.sinks import AnswerSink, Collected, send_whole, watch
from router.contract.words import Operation, Outcome
from router.dialects.table import SPECS
from router.responses.capture import capture
from router.responses.compact import write_compaction
from router.responses.keep import is_kept


class Reply(Struct):
    """The way to the caller. `sink` takes what a target answers; `finish` is called once that is over."""

    sink: AnswerSink

    def finish(self, ending: Ending) -> Ending:
        """Do what is left to be done. An answer that went out as it came leaves nothing."""
        return ending


class _Compaction(Reply):
    """Holds the summary back, and sends the compaction that is made with it."""

    sink: Collected
    caller: AnswerSink
    exchange: Exchange
    view: RequestView

    def finish(self, ending: Ending) -> Ending:
        if ending.outcome is Outcome.SERVED:
            opened = self.exchange.last(AttemptOpened)
            body = write_compaction(self.view, bytes(self.sink.body), opened.target.name if opened else "")
            send_whole(self.caller, tuple(header for header in self.sink.headers if header[0] != "content-length"), body)
        return ending


def reply_to(exchange: Exchange, view: RequestView, caller: AnswerSink) -> Reply:
    """How this request is to be answered. Which sinks an answer passes, and in which order: see `router.contract.sinks`."""
    spec = SPECS[view.dialect]
    if not spec.continues_responses and view.continued is None:
        return Reply(caller)
    if exchange.arrival.operation is Operation.COMPACT:
        return _Compaction(Collected(), caller, exchange, view)
    if is_kept(view, on_socket=exchange.arrival.responses is not None):
        kept = capture(exchange, is_streaming=view.is_streaming, is_message=spec.has_threads)
        return Reply(watch(caller, kept))
    return Reply(caller)
