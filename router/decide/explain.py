"""The sentences of a decision: one short line for a header, and its JSON for everything else."""

from collections.abc import Mapping, Sequence

from router.contract.decision import Decision, Estimate, Evidence
from router.contract.opinions import Insist, Lean, RuleOut
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.decide.opinions import Opinions

_MAX_CHARS = 120
_TOLD_WARM_TOKENS = 8_000
_TOLD_WAIT_SECONDS = 1.0
_TOLD_LOG_ODDS = 0.25
_LOOKS_LONG = -0.85
"""Log-odds: a score of 0.3, where tiers usually change."""


def because_insist(opinion: Insist) -> str:
    """An opinion insisted on it."""
    return opinion.because


def because_only_tier(tier: Tier, reason: str) -> str:
    """The other tier cannot serve it."""
    return f"only {tier} can serve this: {reason}"


def because_estimate(tier: Tier, estimates: Mapping[Tier, Estimate], opinions: Opinions, warm_lead: int = 0) -> str:
    """Both could; this one will be done sooner.

    Begins with what the turn looks like; adds the strongest other evidence that points the same way and, where the choice
    goes against the looks, what made it: a warm cache, a queue, or how little there is to gain. A reason that says the first
    one and more takes its place.
    """
    is_deep = tier is Tier.DEEP
    leans = [attributed.opinion for attributed in opinions.leans if isinstance(attributed.opinion, Lean)]
    looks = next((lean for lean in leans if lean.names_turn), None)
    pointing = [
        lean for lean in leans if lean is not looks and (lean.log_odds > 0) == is_deep and abs(lean.log_odds) >= _TOLD_LOG_ODDS
    ]
    words = [looks.because if looks else "unclear whether quick or long", *[lean.because for lean in pointing[:1]]]
    if looks is None or (looks.log_odds > _LOOKS_LONG) is not is_deep:
        if warm_lead >= _TOLD_WARM_TOKENS:
            words.append(f"{warm_lead // 1000}k tokens are cached there")
        elif looks is not None and len(words) == 1:
            words.append(_say_against_looks(tier, estimates))
    sentence = words[0]
    for word in words[1:]:
        if word.startswith(sentence):
            sentence = word
        elif len(sentence) + len(word) + 2 <= _MAX_CHARS:
            sentence = f"{sentence}; {word}"
    return sentence


def _say_against_looks(tier: Tier, estimates: Mapping[Tier, Estimate]) -> str:
    """Why a turn does not go to the tier that it looks right for."""
    other = estimates[tier.other]
    if other.wait_seconds >= _TOLD_WAIT_SECONDS:
        return f"{tier.other} has a queue"
    return "fast would not be done much sooner" if tier is Tier.DEEP else "fast is still done sooner"


def no_target_error(insist: Insist | None, reasons: Sequence[RuleOut]) -> str:
    """What was asked for, and why each target cannot."""
    asked = f"{insist.because}, but no target there can serve this request" if insist else "no target can serve this request"
    return f"{asked}: {'; '.join(dict.fromkeys(f'{r.target}: {r.because}' for r in reasons)) or 'no target is configured'}"


def explain(decision: Decision) -> JsonObject:
    """The whole decision as JSON: for `/tandem/explain`, the ledger and the command line."""
    estimates: JsonObject = {str(tier): _estimate_json(estimate) for tier, estimate in decision.estimates.items()}
    evidence: list[Json] = [_evidence_json(item) for item in decision.evidence]
    return {
        "tier": str(decision.tier),
        "targets": list(decision.targets),
        "spill": list(decision.spill),
        "score": round(decision.score, 6),
        "because": decision.because,
        "decided_by": decision.decided_by,
        "turn_kind": str(decision.turn.kind),
        "session": decision.turn.session,
        "client": decision.turn.client,
        "person_text": decision.turn.person_text,
        "prompt_tokens": decision.prompt_tokens,
        "prompt_tokens_exact": decision.prompt_is_exact,
        "evidence": evidence,
        "estimates": estimates,
        "margin_usd": None if decision.margin_usd is None else round(decision.margin_usd, 6),
        "flip": {
            "score": _rounded(decision.flip.score, 4),
            "fast_wait_seconds": _rounded(decision.flip.fast_wait_seconds, 2),
        },
        "skipped": [{"policy": entry.policy, "reason": entry.reason} for entry in decision.skipped],
        "config": decision.config_fingerprint,
        "weights": decision.weights_fingerprint,
    }


def _evidence_json(item: Evidence) -> JsonObject:
    told: JsonObject = {"policy": item.policy, "kind": item.kind, "because": item.because}
    if item.log_odds is not None:
        told["log_odds"] = round(item.log_odds, 3)
    if item.target is not None:
        told["target"] = item.target
    if item.rank is not None:
        told["rank"] = item.rank
    if item.tier is not None:
        told["tier"] = str(item.tier)
    if item.is_lasting is not None:
        told["lasting"] = item.is_lasting
    if item.tokens is not None:
        told["tokens"] = list(item.tokens)
    return told


def _estimate_json(estimate: Estimate) -> JsonObject:
    return {
        "target": estimate.target,
        "seconds": round(estimate.seconds, 3),
        "money_usd": _rounded(estimate.money_usd, 6),
        "cost_usd": round(estimate.cost_usd, 6),
        "wait_seconds": round(estimate.wait_seconds, 3),
        "redo_seconds": round(estimate.redo_seconds, 3),
        "calls_ratio": round(estimate.ratio.calls, 3),
        "output_ratio": round(estimate.ratio.output, 3),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
