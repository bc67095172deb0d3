"""The sentences of a decision: one short line for a header, and its JSON for everything else."""

from collections.abc import Mapping, Sequence

from router.contract.decision import Decision, Estimate, Evidence
from router.contract.opinions import Insist, RuleOut
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.decide.opinions import Hearing

_TOLD_WARM_TOKENS = 8_000


def because_insist(opinion: Insist) -> str:
    """Someone asked for it."""
    return opinion.because


def because_only_tier(tier: Tier, reason: str) -> str:
    """The other one cannot."""
    return f"only {tier} can serve this: {reason}"


def because_estimate(tier: Tier, estimates: Mapping[Tier, Estimate], score: float, hearing: Hearing, warm_lead: int = 0) -> str:
    """Both could; this one will be done sooner. Names the weightiest evidence that points the same way, and a warm cache."""
    here, there = estimates[tier].seconds, estimates[tier.other].seconds
    words = f"about {_seconds(here)} to done on {tier}, {_seconds(there)} on {tier.other}"
    points = [held for held in hearing.leans if (getattr(held.opinion, "log_odds", 0.0) > 0) == (tier is Tier.DEEP)]
    evidence = f"; {points[0].opinion.because}" if points else ""
    warm = f"; {warm_lead // 1000}k tokens are warm there" if warm_lead >= _TOLD_WARM_TOKENS else ""
    return f"{words}; {score:.0%} long task{warm}{evidence}"


def no_target_error(insist: Insist | None, reasons: Sequence[RuleOut]) -> str:
    """What was asked for, and why each target cannot."""
    asked = f"{insist.because}, but no target there can serve this request" if insist else "no target can serve this request"
    return f"{asked}: {'; '.join(dict.fromkeys(f'{r.target}: {r.because}' for r in reasons)) or 'none is configured'}"


def _seconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 180 else f"{value / 60:.0f} min"


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
    }


def _evidence_json(item: Evidence) -> JsonObject:
    told: JsonObject = {"policy": item.policy, "kind": item.kind, "because": item.because}
    if item.log_odds is not None:
        told["log_odds"] = round(item.log_odds, 3)
    if item.target is not None:
        told["target"] = item.target
    return told


def _estimate_json(estimate: Estimate) -> JsonObject:
    return {
        "target": estimate.target,
        "seconds": round(estimate.seconds, 3),
        "money_usd": _rounded(estimate.money_usd, 6),
        "cost_usd": round(estimate.cost_usd, 6),
        "wait_seconds": round(estimate.wait_seconds, 3),
        "redo_seconds": round(estimate.redo_seconds, 3),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
