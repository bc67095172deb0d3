"""What a config makes (`Plan`, swapped whole) and what outlives it (`State`)."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from router.combine import Combiner
from router.contract.combine import NOTHING, Combine, check_combining
from router.contract.exchange import Exchange, Observers, Passed
from router.contract.facts import Ending
from router.contract.job import USUAL_TERMS, JobTerms
from router.contract.keys import Key, KeyRing
from router.contract.lasting import Lasting
from router.contract.limits import Limits
from router.contract.opinions import Policy
from router.contract.relay import Sink, Upstream
from router.contract.request import RequestView
from router.contract.rights import rights_in
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
from router.look.looks import Looks
from router.loop.speedups import Speedups
from router.loop.stalls import LoopWatch
from router.responses.repeats import Repeats
from router.sense.models import ModelNames
from router.sense.tokens import Calibration
from router.sessions.ended_jobs import EndedJobs
from router.sessions.memory import SessionMemory
from router.stores.shared import Shared
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry.metrics import Metrics
from router.telemetry.ring import Ring
from router.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from router.look.looking import Looker


class Plan(Struct, frozen=True):
    """How requests are served. A request keeps its initial plan."""

    rules: Rules
    models: ModelNames
    targets: Mapping[str, Target]
    dispatcher: Dispatcher
    open_looker: "Callable[[], Looker]"
    """What has deep look over what fast did, for requests that have it on."""
    limits: Limits
    deadline_seconds: float
    keeps_text: bool = False
    hears_lines: bool = True
    window_of_auto: Tier = Tier.DEEP
    """The tier whose window model lists show for `auto`."""
    takes_callers_keys: bool = False
    """Whether a target uses callers' own keys: each key is then a caller."""
    keys: KeyRing | None = None
    """Keys of this router, one of which every caller needs; None: open."""
    metrics_key: bytes | None = None
    """Digest of a key for `/metrics` alone, if callers need keys and the config names one."""
    caller_limits: CallerLimits = NO_LIMITS
    """Limits of callers with a key, checked before every attempt."""
    pass_through: Mapping[PassedRoute, str] = field(default_factory=dict)
    """Target of each undecided route."""
    shows_page: bool = True
    """Whether browsers get the live page at `/`."""
    jobs: JobTerms = USUAL_TERMS
    """Limits of background work."""
    background: tuple[Policy, ...] = ()
    """Additional policies for background work."""
    combine: Combine = NOTHING
    """What both tiers do for a task, unless a request says otherwise."""
    combiners: tuple[Policy, ...] = ()
    """Additional policies where both tiers work on one task."""
    combiner: Combiner | None = None
    """None where they do not, and no request asked for it."""

    def for_background(self) -> "Plan":
        """The plan for requests with `background: true`; others pay nothing for it."""
        rules = replace(self.rules, policies=(*self.rules.policies, *self.background))
        return replace(self, rules=rules, background=(), deadline_seconds=self.jobs.deadline_seconds)

    def for_combining(self) -> "Plan":
        """The plan for requests with `x-tandem-combine`, and for all where `combine` is on; others pay nothing for it."""
        if self.combiner is not None:
            return self
        rules = replace(self.rules, policies=(*self.rules.policies, *self.combiners))
        return replace(self, rules=rules, combiner=Combiner(self.combine, rules))

    def pass_on(self, exchange: Exchange, passed: Passed, caller: Sink) -> Coroutine[Any, Any, Ending]:
        """Relay a request of an undecided route. Raises `NotPermitted` if its caller may not use the target."""
        return self.dispatcher.pass_on(exchange, passed, self.pass_through[passed.route], caller)


def combine(plan: Plan, view: RequestView) -> Plan:
    """The plan for a request with `x-tandem-combine`. Raises `NotPermitted` if its caller may not ask for that."""
    check_combining(view.overrides.combine or "", rights_in(plan.rules.rights, view.caller.name))
    return plan.for_combining()


class State(Struct, frozen=True):
    """Memory and open resources that outlive a plan."""

    memory: SessionMemory
    live: LiveStatistics
    responses: ResponseStore
    entries: EntryStore
    counter: TokenCounter
    calibration: Calibration
    upstream: Upstream
    observers: Observers
    running: set[Exchange]
    ended_jobs: EndedJobs = field(default_factory=EndedJobs)
    """Uncollected background jobs, named in answers of their session."""
    repeats: Repeats = field(default_factory=Repeats)
    speedups: Speedups = field(default_factory=Speedups)
    histories: Histories = field(default_factory=Histories)
    """Known facts about open conversations."""
    rates: CallerRates = field(default_factory=CallerRates)
    """Callers' usage in the last minute."""
    budgets: Budgets = field(default_factory=Budgets)
    """Callers' spending."""
    files: dict[str, SqliteWriter] = field(default_factory=dict)
    """Writers of this router's files: ledger, responses and, from the first job on, jobs."""
    tracing: Tracing = field(default_factory=Tracing)
    """Sends traces to a collector, if configured."""
    metrics: Metrics = field(default_factory=Metrics)
    """Counts requests for `/metrics` while its link is on."""
    ring: Ring = field(default_factory=Ring)
    """The newest requests, for the live page, while its link is on."""
    loop_watch: LoopWatch = field(default_factory=LoopWatch)
    """Counts how long the event loop was held up."""
    shared: Shared | None = None
    combined: list[Combine] = field(default_factory=list)
    """The last terms by which both tiers worked on one task, if ever: turns that began so keep it after a reload."""
    looks: Looks = field(default_factory=Looks)
    """What looks cost today, and what people made of objections."""
    lasting: Lasting = field(default_factory=Lasting)
    """Open sockets and feeds."""
    own_key: Key | None = None
    """Key of commands by the router's own user, if callers need one."""
