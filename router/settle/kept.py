"""The format of decisions in the ledger's column `decision`.

Kept are facts: the opinions, and what the turn would take on each tier. `explain_row` derives the rest (ordered evidence, both
estimates, the margin, the flip, rounding).
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from router.contract.asked_again import asks_again
from router.contract.combine import LookEnd
from router.contract.decision import Decision, Projection, Redo, Weighing
from router.contract.entry import COLUMNS
from router.contract.opinions import Insist, Lean, Opinions, RuleOut, Skipped
from router.contract.request import JsonObject
from router.contract.signals import Turn
from router.contract.words import BEGINS, Tier
from router.decide.estimate import weighing_of
from router.decide.explain import explain_combined, explain_opinions, explain_range, explain_weighing

_VERSION = 3
ROW_COLUMNS = (*COLUMNS, "decision", "attempts")
"""In the order of `explain_row`."""


class KeptDecision(Struct, frozen=True, omit_defaults=True):
    """The column's JSON, without what has its own column. An absent field has its default."""

    v: int
    """Version of this form: 3."""
    tier: Tier
    """The tier decided on."""
    targets: tuple[str, ...]
    """Its open targets, cheapest first."""
    decided_by: str
    """`estimate`, `rule_out`, or the policy that insisted."""
    prompt_tokens: int
    """Prompt length assumed."""
    usd_per_second: float
    """What a second was worth."""
    insists: tuple[tuple[str, Insist], ...] = ()
    """Pairs of policy and opinion, strongest first."""
    ruled_out: tuple[tuple[str, RuleOut], ...] = ()
    """Targets ruled out, likewise."""
    leans: tuple[tuple[str, Lean], ...] = ()
    """Evidence, likewise: log-odds of `score`."""
    skipped: tuple[Skipped, ...] = ()
    """Policies that failed."""
    spill: tuple[str, ...] = ()
    """The other tier's, if they may take over."""
    prompt_tokens_exact: bool = False
    """Counted, not estimated."""
    prompt_tokens_range: tuple[int, int] | None = None
    """Bounds, if an exact count was late."""
    config: str = ""
    """Fingerprint of the config."""
    weights: str = ""
    """Fingerprint of the weights."""
    """Target, outcome, worth, expected cost."""
    combining: str = ""
    """Such as `plan,look:auto`."""
    look: LookEnd | None = None
    """Deep's look: target, end, objections, seconds, cost."""
    look_before: str = ""
    """`acted on` or `waved off`: earlier objections."""
    edits: int = 0
    """Earlier calls that changed a file."""
    shadow: Mapping[str, float] = {}
    """Plans used too quickly, with the share of list price."""
    fast: Projection | None = None
    """Cheapest fast target: name, wait; seconds and USD if quick, more if long; price known; ratios; cold seconds."""
    deep: Projection | None = None
    """Cheapest deep target, likewise."""
    redo: Redo | None = None
    """Cost of a wrong first answer: chances, seconds, USD; turns learned from, subject."""
    has_other_fast: bool = False
    """A second fast target was open."""
    because: str | None = None
    """Without failures; absent if the same as the column."""
    person_text: str | None = None
    """With `ledger.keep_text`."""
    dropped: tuple[str, ...] = ()
    """What the request lost."""
    queued: tuple[tuple[str, float], ...] = ()
    """Targets without room, and seconds waited."""
    asked_again: bool = False
    """The words say that the turn before has to be done again."""


_facts_of = attrgetter(
    *("tier", "targets", "decided_by", "prompt_tokens", "economics.usd_per_second"),
    *("opinions.insists", "opinions.ruled_out", "opinions.leans", "opinions.skipped", "spill"),
    *("signals.prompt.is_exact", "signals.prompt.late_range", "config_fingerprint", "weights_fingerprint"),
    *("combining", "look", "look_before", "turn.trajectory.edits", "signals.shadow"),
)
"""Read in one go: every request pays for it."""
_UNKNOWN: dict[str, Any] = {"usage": None, "cost_usd": None}
"""What an attempt leaves out."""
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(KeptDecision, strict=False).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Errors of reading: other programs may write to the file."""


def keep_decision(
    decision: Decision,
    because: str | None,
    dropped: tuple[str, ...],
    queued: tuple[tuple[str, float], ...] = (),
    *,
    keeps_text: bool,
) -> str:
    """`because` is the column's sentence."""
    weighing = decision.weighing or weighing_of(decision)
    said = decision.because
    # By position, in field order: names would take longer than the rest.
    kept = KeptDecision(  # type: ignore[call-arg]  # mypy cannot know where the facts end
        _VERSION,
        *_facts_of(decision),
        weighing.fast,
        weighing.deep,
        weighing.redo,
        weighing.has_other_fast,
        said if said != because else None,
        decision.turn.person_text if keeps_text else None,
        dropped,
        queued,
        _is_asked_again(decision.turn),
    )
    return _encode(kept).decode()


def _is_asked_again(turn: Turn) -> bool:
    """Whether a person's new words are about the turn before. Known only now: the ledger keeps no text."""
    last, words = turn.history.last, turn.person_text
    return bool(last and words) and turn.kind in BEGINS and asks_again(words or "", last[-1].words)


def explain_row(values: tuple[object, ...]) -> JsonObject | None:
    """With the request's outcome. None where absent or unreadable."""
    row: dict[str, Any] = dict(zip(ROW_COLUMNS, values, strict=True))
    written = row["decision"]
    if not isinstance(written, str):
        return None
    try:
        return _explain(row, _decode(written))
    except _UNREADABLE:
        return None


def _explain(row: Mapping[str, Any], kept: KeptDecision) -> JsonObject:
    score, weighing = row["score"] or 0.0, Weighing(kept.fast, kept.deep, kept.has_other_fast, kept.redo)
    opinions = Opinions(kept.insists, kept.ruled_out, kept.leans, kept.skipped)
    return {
        "request_id": row["id"],
        "tier": str(kept.tier),
        "targets": list(kept.targets),
        "spill": list(kept.spill),
        "score": round(score, 6),
        "because": kept.because or row["because"],
        "decided_by": kept.decided_by,
        "turn_kind": row["turn_kind"],
        "caller": row["caller"],
        "session": row["session"],
        "client": row["client"],
        "person_text": kept.person_text,
        "prompt_tokens": kept.prompt_tokens,
        "prompt_tokens_exact": kept.prompt_tokens_exact,
        "prompt_tokens_range": explain_range(kept.prompt_tokens_range),
        **explain_opinions(opinions),
        **explain_weighing(weighing, score, kept.decided_by, kept, kept.shadow),
        **explain_combined(row["combined"], kept),
        "config": kept.config,
        "weights": kept.weights,
        "outcome": row["outcome"],
        "served_by": row["target"],
        "attempts": [_UNKNOWN | attempt for attempt in msgspec.json.decode(row["attempts"], type=list[dict[str, Any]])],
        "ttft_ms": row["ttft_ms"],
        "duration_ms": row["duration_ms"],
        "overhead_ms": row["overhead_ms"],
        "queued": [{"target": target, "seconds": seconds} for target, seconds in kept.queued],
        "cost_usd": row["cost_usd"],
        "billing": row["billing"],
        "list_usd": row["list_usd"],
        "dropped": list(kept.dropped),
    }
