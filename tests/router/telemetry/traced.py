"""Requests that are over, as the observer of traces meets them, without a server."""

from router.contract.entry import Attempt
from router.contract.errors import TandemError, UpstreamTimeout
from router.contract.exchange import Arrival, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Ending, Fact, FirstToken, Read, Recorded, Settled
from router.contract.tracing import TracedRoute, TraceTerms
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation, Outcome
from router.settle.entry import write_entry
from tests.tools.exchanges import Told, make_decided
from tests.tools.values import make_target

CANARY = "canaryword"
SPARK = make_target("spark", model="fast-model")
SERVED = Ending(Outcome.SERVED, 200)
ROUTES = {(Dialect.CHAT, Operation.CREATE): TracedRoute("/v1/chat/completions", "chat")}


def terms(endpoint: str = "http://127.0.0.1:1", sample: float = 1.0, headers=()) -> TraceTerms:
    return TraceTerms(endpoint, sample, headers, {"spark": "openai"}, ROUTES, "desk-1.2", "https")


def called(at: float = 1.0, until: float = 2.0, error: TandemError | None = None, target=SPARK, **more) -> list[Fact]:
    """One attempt that was opened and ended at these times."""
    usage = None if error is not None else Usage(90, 30, 10, 5, 7)
    row = Attempt(target.name, 200 if error is None else 503, error.code if error else None, until - at, usage, **more)
    token = [] if error is not None else [FirstToken((at + until) / 2, target)]
    return [AttemptOpened(at, target, "", ()), *token, AttemptEnded(until, target, row, error, usage, None)]


def failed(target: str = "spark") -> UpstreamTimeout:
    """An error with frames, as one has that was raised."""
    try:
        raise UpstreamTimeout(target, f"no answer to {CANARY}")
    except UpstreamTimeout as error:
        return error


def begin(name: str = "req_1", *facts: Fact, began: float = 0.5, **arrival) -> Exchange:
    """A request under way, with what has happened to it."""
    given = {"headers": {}, "raw": CANARY.encode() * 100, **arrival}
    exchange = Exchange(Arrival(name, Dialect.CHAT, Operation.CREATE, **given), began, Deadline(600.0), Told())
    for fact in facts:
        exchange.note(fact)
    return exchange


def finish(
    name: str = "req_1", *facts: Fact, ending: Ending = SERVED, ended: float = 3.0, **arrival
) -> tuple[Exchange, Recorded]:
    """A request that is over, with the fact that its entry is written: decided and served once, unless facts are given."""
    decided: Decided = make_decided()
    exchange = begin(name, *(facts or (Read(decided.view), decided, *called())), **arrival)
    settled = Settled(ended, ending)
    exchange.note(settled)
    exchange.note(recorded := Recorded(write_entry(exchange, settled, 1_000.0)))
    return exchange, recorded
