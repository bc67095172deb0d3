"""What one config makes (`Plan`, swapped whole) and what outlives it (`State`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.contract.exchange import Exchange, Observers
from router.contract.limits import Limits
from router.contract.relay import Upstream
from router.contract.signals import TokenCounter
from router.contract.stores import EntryStore, ResponseStore
from router.contract.target import Target
from router.contract.words import Tier
from router.decide.choose import Rules
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.responses.repeats import Repeats
from router.second_opinion import Adviser
from router.sense.calibration import Calibration
from router.sense.models import ModelNames
from router.sessions.memory import SessionMemory
from router.telemetry.together import Gathering


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
    heeds_lines: bool = True
    window_of_auto: Tier = Tier.DEEP
    """Whose window the model lists name for `auto`."""
    takes_callers_keys: bool = False
    """Whether a target is asked with the key that a caller brings: then each key is a caller of its own."""
    adviser: Adviser | None = None
    """Who gives a second opinion, where the config names one."""


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
    repeats: Repeats = field(default_factory=Repeats)
    gathering: Gathering = field(default_factory=Gathering)
    """Where requests that come at about the same time wait for each other."""
