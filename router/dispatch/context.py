"""What all attempts of one request share."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from router.contract.decision import Decision
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerSink
from router.contract.words import Tier
from router.dispatch.live.statistics import LiveStatistics
from router.limits.callers import Holding


class DispatchContext(Struct, frozen=True):
    exchange: Exchange
    decided: Decided
    decision: Decision
    """Equally good targets are ordered by load."""
    sink: AnswerSink
    max_bytes: int
    clock: Callable[[], float]
    live: LiveStatistics
    explanation: JsonObject | None = None
    carried: Mapping[Tier, Headers] = {}
    holding: Holding | None = None
    """What the request takes of its caller's limits, where there are any."""
