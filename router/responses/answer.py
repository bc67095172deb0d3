"""How an answer reaches its caller: directly, captured, or held back and compacted."""

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
    """`sink` takes the target's answer; `finish` is called after it."""

    sink: AnswerSink

    def finish(self, ending: Ending) -> Ending:
        return ending


class _Compaction(Reply):
    """Holds the summary back and sends the compaction made from it."""

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
    """Choose the way of an answer; `router.contract.sinks` lists the sinks and their order."""
    spec = SPECS[view.dialect]
    if not spec.continues_responses and view.continued is None:
        return Reply(caller)
    if exchange.arrival.operation is Operation.COMPACT:
        return _Compaction(Collected(), caller, exchange, view)
    if is_kept(view, on_socket=exchange.arrival.responses is not None):
        kept = capture(exchange, is_streaming=view.is_streaming, is_message=spec.has_threads)
        return Reply(watch(caller, kept))
    return Reply(caller)
