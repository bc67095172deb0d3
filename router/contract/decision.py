"""The decision, and the facts from which `decide.estimate` and `decide.explain` derive everything else on demand."""

from collections.abc import Mapping

from msgspec import Struct

from router.contract.combine import LookEnd
from router.contract.economics import Economics
from router.contract.opinions import Opinions
from router.contract.signals import Signals, Turn
from router.contract.target import WorkRatio
from router.contract.words import Tier

ESTIMATE = "estimate"
"""`decided_by` where no opinion insisted and both tiers could serve."""


class Evidence(Struct, frozen=True):
    """An opinion as it counted. An insist has `rank` and `tier`, a rule-out `is_lasting` and `tokens` (needed, available)."""

    policy: str
    kind: str
    because: str
    log_odds: float | None = None
    target: str | None = None
    rank: str | None = None
    tier: Tier | None = None
    is_lasting: bool | None = None
    tokens: tuple[int, int] | None = None


class Estimate(Struct, frozen=True):
    """Expected time and money of a whole turn on one tier, `ratio` included. Without a price, `money_usd` is None."""

    target: str
    seconds: float
    money_usd: float | None
    cost_usd: float
    wait_seconds: float
    redo_seconds: float
    redo_usd: float = 0.0
    ratio: WorkRatio = WorkRatio()


class Flip(Struct, frozen=True):
    """The chance of a long task, or the wait on fast, at which both tiers cost as much."""

    score: float | None
    fast_wait_seconds: float | None


class Projection(Struct, frozen=True, array_like=True):
    """A turn on one target before any redo: the figures of a quick turn, and how much a long one adds."""

    target: str
    wait_seconds: float
    seconds: float
    seconds_slope: float
    usd: float
    usd_slope: float
    has_price: bool
    ratio: WorkRatio = WorkRatio()
    plain_seconds: float = 0.0
    """Seconds of a quick turn without a wait, nothing cached."""


class Redo(Struct, frozen=True, array_like=True):
    """How often deep must redo fast's work, and the cost: for a quick turn, and how much a long one adds."""

    quick_rate: float
    long_rate: float
    seconds: float
    seconds_slope: float
    usd: float
    usd_slope: float
    turns: int = 0
    """Turns that the rates were learned from; 0: assumed rates."""


class Ranked(Struct, frozen=True):
    """Open targets of a tier, cheapest first; ties keep the order of the config."""

    names: tuple[str, ...]
    hop_seconds: float
    costs: Mapping[str, float] | None = None
    """In USD; None where there was nothing to order."""


class Weighing(Struct, frozen=True):
    """The turn on the cheapest open target of each tier. Both estimates follow from this and the score."""

    fast: Projection | None = None
    deep: Projection | None = None
    has_other_fast: bool = False
    """Whether a queue at the first fast target moves work to a second one, not to deep."""
    redo: Redo | None = None
    """None unless both tiers are open."""


class Decision(Struct, frozen=True):
    """Which tier serves a turn, and why. A failed attempt may move on to the other tier's `spill` targets."""

    tier: Tier
    targets: tuple[str, ...]
    spill: tuple[str, ...]
    score: float
    because: str
    decided_by: str
    opinions: Opinions
    signals: Signals
    economics: Economics
    turn: Turn
    prompt_tokens: int
    weighing: Weighing | None = None
    """None after an insist."""
    config_fingerprint: str = ""
    weights_fingerprint: str = ""
    """The weights that read the words: fitted values belong to them."""
    was_asked_for: bool = False
    """Whether a person, or an operator's rule, asked for the tier."""
    combining: str = ""
    """What both tiers do for the task, as `Combining.words` says it; empty for nothing."""
    combined: str | None = None
    """What came of that, in words."""
    look: LookEnd | None = None
    """Deep's look at the turn, once it has ended."""
    look_before: str = ""
    """What the person did about the last look's objections: `acted on` or `waved off`; empty without any."""
    alike: int = 1
    """How many of the first targets are equally good: the least busy serves."""
    rival: str = ""
    """The other tier's target, if it was nearly chosen."""
    ranked: tuple[Ranked, Ranked] | None = None
    """The order of both tiers, where an insist needed it."""
