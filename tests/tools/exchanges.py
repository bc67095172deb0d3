"""Exchanges, decisions and a recording sink, without a server."""

import asyncio
from collections import defaultdict

from router.contract.caller import LOCAL, SessionKey
from router.contract.decision import Decision, Weighing
from router.contract.economics import Economics, TurnSize
from router.contract.exchange import Arrival, Deadline, Exchange
from router.contract.facts import Decided
from router.contract.opinions import Opinions
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import Alias, SessionPosition, Signals, TokenCount, Turn
from router.contract.words import Dialect, Operation, Preference, Tier, TurnKind
from router.dispatch.context import DispatchContext
from router.dispatch.live.statistics import LiveStatistics
from tests.tools.values import make_view

ECONOMICS = Economics(60.0, Preference.BALANCED, 0.0, TurnSize(1, 400), TurnSize(20, 8_000), 0.1)


class Told:
    """Records facts and passes them to these observers. Their defects fail the test."""

    def __init__(self, *observers) -> None:
        self.facts = []
        self.handlers = defaultdict(lambda: [lambda _, fact: self.facts.append(fact)])
        for observer in observers:
            for kind, handler in observer.handlers().items():
                self.handlers[kind].append(handler)

    def report(self, exchange, error) -> None:
        raise error


def make_exchange(
    *observers,
    name: str = "req_test",
    dialect=Dialect.CHAT,
    operation=Operation.CREATE,
    seconds=600.0,
    raw=b"",
    began=0.0,
    responses=None,
):
    arrival = Arrival(name, dialect, operation, {}, raw, LOCAL, None, responses)
    return Exchange(arrival, began, Deadline(began + seconds), Told(*observers))


def make_decision(tier: Tier = Tier.FAST, targets=("spark",), spill=(), **more) -> Decision:
    values = {
        "score": 0.1,
        "because": "looks like a quick edit",
        "decided_by": "estimate",
        "opinions": Opinions(),
        "economics": ECONOMICS,
        "turn": Turn(TurnKind.ASK, "session", "unknown", "hello"),
        "prompt_tokens": 100,
        "weighing": Weighing(),
        **more,
    }
    tokens = TokenCount(values["prompt_tokens"], values["prompt_tokens"], values["prompt_tokens"])
    signals = Signals(turn=values["turn"], prompt=tokens, alias=Alias("auto"), statuses={})
    return Decision(tier, targets, spill, **{"signals": signals, **values})


def make_snapshot(state: SessionState | None = None, **more) -> SessionSnapshot:
    values = {"key": SessionKey(LOCAL, "session"), "position": SessionPosition(), "origins": {}, "messages": 1}
    return SessionSnapshot(state=state or SessionState(), **{**values, **more})


def make_decided(view=None, decision=None, session=None, **more) -> Decided:
    view = view or make_view({"messages": [{"role": "user", "content": "hello"}]})
    return Decided(view, session or make_snapshot(), decision or make_decision(), **more)


def make_context(exchange, sink, clock, decided=None, live=None, max_bytes=1 << 20, **more) -> DispatchContext:
    decided = decided or make_decided()
    return DispatchContext(exchange, decided, decided.decision, sink, max_bytes, clock, live or LiveStatistics(), **more)


class RecordingSink:
    def __init__(self) -> None:
        self.told: list[tuple] = []
        self.facts: list = []
        self.flow = None
        self.status, self.headers, self.body, self.error = None, (), b"", None
        self.first, self.over = asyncio.Event(), asyncio.Event()

    def feed_from(self, flow) -> None:
        self.flow = flow
        self.told.append(("feed_from",))

    def start(self, status, headers) -> None:
        self.status, self.headers = status, headers
        self.told.append(("start", status))

    def write(self, data) -> None:
        self.body += data
        self.told.append(("write", data))
        self.first.set()

    def tell(self, fact) -> None:
        self.facts.append(fact)
        self.told.append(("tell", fact))

    def end(self) -> None:
        self.told.append(("end",))
        self.over.set()

    def fail(self, error) -> None:
        self.error = error
        self.told.append(("fail", error))
        self.over.set()

    @property
    def words(self) -> list[str]:
        """Without repetitions of `write`."""
        names = [name for name, *_ in self.told]
        return [name for index, name in enumerate(names) if name != "write" or names[index - 1] != "write"]

    async def finished(self, within_seconds: float = 30.0) -> "RecordingSink":
        await asyncio.wait_for(self.over.wait(), within_seconds)
        return self
