"""What all attempts of one request share."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from router.contract.decision import Decision
from router.contract.exchange import Exchange
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerSink
from router.contract.words import Tier
from router.dispatch.live.statistics import LiveStatistics


class DispatchContext(Struct):
    """A decided request that is to be sent, and to whom its answer goes."""

    exchange: Exchange
    decision: Decision
    sink: AnswerSink
    max_bytes: int
    clock: Callable[[], float]
    explanation: JsonObject | None = None
    """The whole decision, where the caller asked for it."""
    carried: Mapping[Tier, Headers] = {}
    """Headers that go with an answer from each tier."""
    first_call_at: float | None = None
    """When the first target was called, be it for a second opinion. What came before that is our own time."""
    live: LiveStatistics | None = None
    """Where a request that waits may look whether it would wait less elsewhere."""
