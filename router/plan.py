"""What one config makes (`Plan`, swapped whole) and what outlives it (`State`)."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from router.contract.exchange import Exchange, Observers, Passed
from router.contract.facts import Ending
from router.contract.job import USUAL_TERMS, JobTerms
from router.contract.keys import Key, KeyRing
from router.contract.limits import Limits
from router.contract.opinions import Policy
from router.contract.relay import Sink, Upstream
from router.contract.signals import TokenCounter
from router.contract.stores import EntryStore, ResponseStore
from router.contract.target import Target
from router.contract.words import PassedRoute, Tier
from router.decide.opinions import Rules
from router.dialects.histories import Histories
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.limits.budgets import Budgets
from router.limits.callers import NO_LIMITS, CallerLimits
from router.limits.rates import CallerRates
from router.loop.speedups import Speedups
from router.responses.repeats import Repeats
from router.second_opinion import Adviser
from router.sense.models import ModelNames
from router.sense.tokens import Calibration
from router.sessions.ended_jobs import EndedJobs
from router.sessions.memory import SessionMemory
from router.stores.shared import Shared
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry.metrics import Metrics
from router.telemetry.ring import Ring
from router.telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Plan:
    """How requests are served. A request keeps the plan that it began with."""

    rules: Rules
    models: ModelNames
    targets: Mapping[str, Target]
    dispatcher: Dispatcher
    limits: Limits
    deadline_seconds: float
    keeps_text: bool = False
    applies_tier_lines: bool = True
    window_of_auto: Tier = Tier.DEEP
    """Whose window the model lists name for `auto`."""
    takes_callers_keys: bool = False
    """Whether a target is asked with the key that a caller brings: then each key is a caller of its own."""
    keys: KeyRing | None = None
    """The keys of this router, one of which every caller needs. None: nobody needs one."""
    metrics_key: bytes | None = None
    """The digest of a key that opens `/metrics` and nothing else, where callers need keys and the config names one."""
    tells_callers_apart: bool = False
    """Whether there is more than one caller, by either kind of key."""
    caller_limits: CallerLimits = NO_LIMITS
    """What callers with a key may use. The dispatcher asks it before every attempt."""
    pass_through: Mapping[PassedRoute, str] = field(default_factory=dict)
    """Which target gets the requests of each route that is not decided."""
    adviser: Adviser | None = None
    """Who gives a second opinion, where the config names one."""
    shows_page: bool = True
    """Whether browsers are shown the live page at `/`."""
    jobs: JobTerms = USUAL_TERMS
    """How much background work there may be."""
    background: tuple[Policy, ...] = ()
    """Who is asked about background work alone, in addition to the other policies."""

    def for_background(self) -> "Plan":
        """The same for a request with `background: true`. Other requests pay nothing for the difference."""
        rules = replace(self.rules, policies=(*self.rules.policies, *self.background))
        return replace(self, rules=rules, background=(), deadline_seconds=self.jobs.deadline_seconds)

    def pass_on(self, exchange: Exchange, passed: Passed, caller: Sink) -> Coroutine[Any, Any, Ending]:
        """Relay a request for a route that is not decided. Raises `NotPermitted` where its caller may not use that target."""
        return self.dispatcher.pass_on(exchange, passed, self.pass_through[passed.route], caller)


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered and kept open: a new plan finds it as the old one left it."""

    memory: SessionMemory
    live: LiveStatistics
    responses: ResponseStore
    entries: EntryStore
    counter: TokenCounter
    calibration: Calibration
    upstream: Upstream
    observers: Observers
    running: set[Exchange]
    """The exchanges under way."""
    ended_jobs: EndedJobs = field(default_factory=EndedJobs)
    """Background jobs that wait to be collected: answers of their session name them."""
    repeats: Repeats = field(default_factory=Repeats)
    speedups: Speedups = field(default_factory=Speedups)
    histories: Histories = field(default_factory=Histories)
    """What is known of conversations that go on."""
    rates: CallerRates = field(default_factory=CallerRates)
    """What callers with a key used in the last minute."""
    budgets: Budgets = field(default_factory=Budgets)
    """What callers with a key spent."""
    ledger: SqliteWriter | None = None
    """Writes the ledger's file, if one is kept."""
    tracing: Tracing = field(default_factory=Tracing)
    """Sends traces of requests to a collector, where the config asks for that."""
    metrics: Metrics = field(default_factory=Metrics)
    """Counts requests for `/metrics` while its link is on."""
    ring: Ring = field(default_factory=Ring)
    """The newest requests, for the live page, while its link is on."""
    shared: Shared | None = None
    """What this router shares with others, if anything."""
    own_key: Key | None = None
    """The key that commands of the router's own user come with, where callers need one."""
