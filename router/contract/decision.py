"""The decision: which tier serves a turn, and everything from which it can be explained to whoever asks.

What only a reader wants (evidence in order, both estimates, the margin, what would have flipped it) is not worked out here:
`decide.estimate` and `decide.explain` do that when they are asked, from what is kept.
"""

from collections.abc import Mapping

from msgspec import Struct

from router.contract.economics import Economics
from router.contract.opinions import Opinions
from router.contract.signals import Signals, Turn
from router.contract.target import WorkRatio
from router.contract.words import Tier

ESTIMATE = "estimate"
"""Who decided when no opinion insisted and both tiers could serve."""


class Evidence(Struct, frozen=True):
    """One opinion as it counted, with the policy that held it."""

    policy: str
    kind: str
    because: str
    log_odds: float | None = None
    target: str | None = None
    rank: str | None = None
    """Of an insist: by which right it was said (`header`, `in_band_line`, `session_scope`, …)."""
    tier: Tier | None = None
    """Of an insist: the tier that was asked for."""
    is_lasting: bool | None = None
    """Of a rule-out: whether it holds for good."""
    tokens: tuple[int, int] | None = None
    """Of a rule-out for length: the tokens needed, and those that fit."""


class Estimate(Struct, frozen=True):
    """Expected time and money to done for one tier, over the whole turn. No price, no money: it is not known."""

    target: str
    seconds: float
    money_usd: float | None
    cost_usd: float
    wait_seconds: float
    redo_seconds: float
    ratio: WorkRatio = WorkRatio()
    """How this target's past turns compare to what was expected of them: counted in."""


class Flip(Struct, frozen=True):
    """What would have changed the tier: the chance of a long task, or the wait on fast, at which both cost the same."""

    score: float | None
    fast_wait_seconds: float | None


class Projection(Struct, frozen=True, array_like=True):
    """What a turn would take on one target, before any redo: when it is quick, and by how much more when it is long."""

    target: str
    wait_seconds: float
    seconds: float
    seconds_slope: float
    usd: float
    usd_slope: float
    has_price: bool
    ratio: WorkRatio = WorkRatio()
    plain_seconds: float = 0.0
    """The seconds of a quick turn without a wait, and with nothing cached."""


class Redo(Struct, frozen=True, array_like=True):
    """How often fast's work must be done again on deep, and what that costs: when the turn is quick, and when it is long."""

    quick_rate: float
    long_rate: float
    seconds: float
    """What a wrong first answer to a quick turn costs. Next come how much more it costs to a long one, and the same in USD."""
    seconds_slope: float
    usd: float
    usd_slope: float
    turns: int = 0
    """How many turns the rates were learned from. 0: they are assumed."""


class Ranked(Struct, frozen=True):
    """The open targets of a tier by name, cheapest first; equals stay in the order of the config."""

    names: tuple[str, ...]
    hop_seconds: float
    """How long it takes to move the session there."""
    costs: Mapping[str, float] | None = None
    """What the turn would cost on each in USD; None where there was nothing to put in order."""


class Weighing(Struct, frozen=True):
    """What the turn would take on the cheapest open target of each tier. Both estimates follow from it and the score."""

    fast: Projection | None = None
    deep: Projection | None = None
    has_other_fast: bool = False
    """Whether a second fast target is open: a queue at the first moves the work there, and not to deep."""
    redo: Redo | None = None
    """None where one tier alone is open."""


class SecondOpinion(Struct, frozen=True, omit_defaults=True):
    """What asking another target about a turn was worth, what it was to cost, and what came of it."""

    target: str
    """Who is asked."""
    answer: str
    """`long` or `quick`; `late`, `odd` or `failed`, which are left out; `would ask`; or `not asked`."""
    value_usd: float
    """What knowing would save: the value of information."""
    cost_usd: float
    """What asking was expected to cost, in time and money."""
    because: str = ""
    """Why nobody was asked."""
    asked_ms: float | None = None
    """How long the turn waited for it."""


class Decision(Struct, frozen=True):
    """Which tier serves a turn, and why. `spill` are the other tier's targets that a failed attempt may go to."""

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
    """None where somebody insisted: then nothing had to be weighed."""
    config_fingerprint: str = ""
    weights_fingerprint: str = ""
    """Which weights read the words: what is fitted on top of the evidence belongs to them."""
    was_asked_for: bool = False
    """Whether somebody with the right to say so asked for the tier: a person, or the operator's rule."""
    second_opinion: SecondOpinion | None = None
    """None where none is configured, or nothing was in doubt."""
    alike: int = 1
    """How many of the first targets are as good as each other: the least busy of them serves."""
    rival: str = ""
    """The other tier's target, where that was nearly chosen."""
    ranked: tuple[Ranked, Ranked] | None = None
    """The order of fast and of deep, where somebody insisted and both were put in order: nobody need do that again."""
