"""Houses with scripted targets: the whole road in memory."""

import asyncio
import json
from functools import partial
from math import inf

from msgspec.structs import replace

from router.contract.caller import LOCAL
from router.contract.combine import LookTerms
from router.contract.exchange import Arrival, Exchange
from router.contract.limits import Limits
from router.contract.signals import TokenCount
from router.contract.words import Dialect, Operation
from router.decide.opinions import Rules
from router.dispatch.live.statistics import LiveStatistics
from router.house import House
from router.limits.callers import NO_LIMITS
from router.look.asking import Asker
from router.look.looking import Looker
from router.look.looks import Looks, keep_no_job
from router.plan import Plan, State
from router.responses.keep import ResponseKeeper
from router.sense.models import ModelNames
from router.sense.tokens import Calibration
from router.sessions.memory import SessionMemory
from router.settle.kept import explain_row
from router.settle.record import Recorder
from router.settle.refuse import refuse_job
from router.stores.memory.entries import MemoryEntries, NoSessions
from router.stores.memory.responses import MemoryResponses
from tests.tools.exchanges import ECONOMICS, RecordingSink, Told
from tests.tools.scripted import dispatcher_of, names_of

LIMITS = Limits(1 << 20, 100, 1 << 16, 100, 10.0, 10.0, 100, 30.0)


class Counter:
    """A scripted counter."""

    def __init__(self, tokens: int | None = None, takes_seconds: float = 0.0) -> None:
        self.tokens, self.takes_seconds, self.asked, self.prepared = tokens, takes_seconds, 0, 0

    async def count(self, view, within_seconds: float = inf, learn=None) -> TokenCount | None:
        self.asked += 1
        if self.tokens is None:
            return None
        if learn is not None:
            learn(self.tokens)
        if self.takes_seconds > within_seconds:
            raise TimeoutError
        return TokenCount(self.tokens, self.tokens, self.tokens, is_exact=True)

    def prepare(self) -> None:
        self.prepared += 1

    async def count_or_estimate(self, view) -> TokenCount:
        return await self.count(view) or TokenCount(7, 7, 7)

    def close(self) -> None: ...


def make_plan(*reachable, base_rate: float = 0.1, policies=(), **more) -> Plan:
    clock = asyncio.get_running_loop().time
    targets = {each.target.name: each.target for each in reachable}
    rules = Rules(policies, replace(ECONOMICS, base_rate=base_rate), spill_over=True, config_fingerprint="")
    values = {
        "rules": rules,
        "models": ModelNames({}, tuple(targets)),
        "targets": targets,
        "dispatcher": dispatcher_of(*reachable, clock=clock),
        "open_looker": partial(_make_looker, clock),
        "limits": LIMITS,
        "deadline_seconds": 600.0,
    }
    return Plan(**{**values, **more})


def _make_looker(clock) -> Looker:
    """For a house that looks nothing over."""
    looks = Looks()
    asker = Asker({}, NO_LIMITS, looks, 1.0, clock)
    more = {"running": set(), "new_id": str, "keep_job": keep_no_job, "note_objections": print}
    return Looker(LookTerms(), asker, looks, clock, **more)


def make_state(*observers, counter: Counter | None = None) -> State:
    """The house's own observers come first."""
    memory, live = SessionMemory(NoSessions()), LiveStatistics(asyncio.get_running_loop().time)
    responses, recorder = MemoryResponses(), Recorder(MemoryEntries(explain_row))
    told = Told(memory, live, ResponseKeeper(responses), recorder, *observers)
    return State(memory, live, responses, recorder, counter or Counter(), Calibration(), None, told, set())


def make_house(*reachable, observers=(), counter: Counter | None = None, accept_job=refuse_job, **plan) -> House:
    state, clock = make_state(*observers, counter=counter), asyncio.get_running_loop().time
    return House(make_plan(*reachable, **plan), state, clock, accept_job)


def arrive(
    name: str = "req_1", dialect=Dialect.CHAT, operation=Operation.CREATE, headers=None, raw=None, caller=LOCAL, **body
) -> Arrival:
    """A request for two words by default."""
    content = {"input": "fix it"} if dialect is Dialect.RESPONSES else {"messages": [{"role": "user", "content": "fix it"}]}
    written = json.dumps({"model": "auto", **content, **body}).encode()
    return Arrival(name, dialect, operation, headers or {}, written if raw is None else raw, caller)


class Walk:
    def __init__(self, house: House, sink: RecordingSink | None = None, **arrival) -> None:
        self._record = house.state.entries.write
        self.exchange: Exchange = house.begin(arrive(**arrival))
        self.sink = sink or RecordingSink()
        self.task = asyncio.get_running_loop().create_task(house.road(self.exchange, self.sink))
        self.exchange.run_by(self.task)

    @property
    def facts(self) -> list[str]:
        self._record()  # done a little later
        return names_of(self.exchange.journal)

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.sink.headers)
