"""A decision in words: a short line for a header, and JSON for everything else."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import to_builtins

from router.contract.combine import LookEnd
from router.contract.decision import ESTIMATE, Decision, Estimate, Evidence, Flip, Projection, Redo, Weighing
from router.contract.economics import ASSUMED_RATES
from router.contract.opinions import Insist, Lean, Opinions, RuleOut
from router.contract.request import Json, JsonObject
from router.contract.signals import Signals, Turn
from router.contract.words import LONG_TASK, MAY_BE_LONG, Tier, TurnKind
from router.decide.estimate import Worth, chance_of_redo, estimates_of, flip_of, weighing_of
from router.decide.opinions import PLAN, evidence_of, say_wait

LATE_COUNT = "the prompt's length is an estimate, as the exact count was not ready in time"
_MAX_CHARS = 120
_TOLD_WARM_TOKENS = 8_000
_TOLD_WAIT_SECONDS = 1.0
_TOLD_LOG_ODDS = 0.25
_UNKNOWN = "unclear whether quick or long"
_UNKNOWN_SESSION = "compaction of a session that is not known"
_EVEN = 0.5
_WEAKER = ((LONG_TASK, MAY_BE_LONG), ("a long task", f"what {MAY_BE_LONG}"), ("long work", f"work that {MAY_BE_LONG}"))
"""What a reading says of odds that other evidence has lowered."""
_LOOKS_QUICK = -1.5
_LOOKS_LONG = -1.1
"""A score of 0.25, where tiers usually change."""


def because_only_tier(tier: Tier, reason: str) -> str:
    return f"only {tier} can serve this: {reason}"


def because_out(tier: Tier, reasons: Sequence[RuleOut], opinions: Opinions, score: float, target: str) -> str:
    looks = opinions.looks
    first = say_looks(looks, score)
    if looks is not None and tier is Tier.FAST and looks.log_odds <= _LOOKS_LONG:  # the other tier was not wanted
        return _add_pointing(first, opinions)
    told = ", ".join(dict.fromkeys(say_rule_out(reason) for reason in reasons))
    if plans := [opinion.because for policy, opinion in opinions.ruled_out if policy == PLAN and opinion in reasons]:
        return f"{plans[0]}, so {target} answers: {first}"
    return f"{first}; {tier.other} is out for now ({told}), so {tier} serves this"


def say_looks(looks: Lean | None, score: float, flip: float | None = None) -> str:
    """What the turn looks like. Below 50 % it only may be long: then with the chance, and the one from which on deep serves."""
    if looks is None:
        return _UNKNOWN
    because = looks.because
    if score < _EVEN:
        for sure, unsure in _WEAKER:
            because = because.replace(sure, unsure, 1)
    if MAY_BE_LONG not in because:
        return because
    chance = _percents(score)[0] if flip is None else "{}; fast takes what is under {}".format(*_percents(score, flip))
    return because.replace(MAY_BE_LONG, f"{MAY_BE_LONG} ({chance})", 1)


def _percents(*shares: float) -> list[str]:
    """With as many digits as tell them apart."""
    for digits in range(3):
        told = [f"{share * 100:.{digits}f} %" for share in shares]
        if len({*told}) == len(told):
            break
    return told


def say_rule_out(reason: RuleOut) -> str:
    """A reason that is a whole sentence already begins with the target's name."""
    return reason.because if reason.because.startswith(f"{reason.target} ") else f"{reason.target}: {reason.because}"


def because_estimate(
    tier: Tier, weighing: Weighing, score: float, opinions: Opinions, signals: Signals, lead_usd: float, worth: Worth
) -> str:
    """Both tiers could serve; this one costs less, by `lead_usd`.

    Begins with the turn's looks. Adds the strongest other evidence for the choice and, if that goes against the looks, its
    cause: a warm cache, a queue, or little to gain. A reason that includes the first replaces it.
    """
    leans, is_deep = opinions.leans, tier is Tier.DEEP
    if len(leans) == 1 and not is_deep and leans[0][1].log_odds < _LOOKS_QUICK and leans[0][1].names_turn:
        return leans[0][1].because
    looks: Lean | None = None
    pointing = ""
    for _, lean in leans:
        if lean.names_turn and looks is None:
            looks = lean
        elif not pointing and (lean.log_odds > 0) is is_deep and abs(lean.log_odds) >= _TOLD_LOG_ODDS:
            pointing = lean.because
    flip = flip_of(weighing, score, worth).score if score < _EVEN else None
    if flip is not None and (score > flip) is not is_deep:
        flip = None  # above it fast serves: it writes so much faster that a long task would be done sooner there
    is_compaction = looks is None and signals.turn.kind is TurnKind.COMPACTION
    sentence = first = _UNKNOWN_SESSION if is_compaction else say_looks(looks, score, flip)
    if pointing:
        sentence = _add(sentence, pointing)
    if looks is None or (looks.log_odds > _LOOKS_LONG) is not is_deep:
        chosen, other = (weighing.deep, weighing.fast) if is_deep else (weighing.fast, weighing.deep)
        assert chosen is not None
        assert other is not None
        # Without its wait, the other tier would be chosen.
        if other.wait_seconds >= _TOLD_WAIT_SECONDS and other.wait_seconds * worth.usd_per_second > lead_usd:
            words = f"{say_wait(signals.statuses[other.target])}, so {tier} is done sooner"
            told = _add(sentence, words)
            return told if told != sentence or looks is None else f"{first}; {words}"
        warm_lead = _warm_lead(chosen.target, other.target, signals)
        if warm_lead >= _TOLD_WARM_TOKENS:
            sentence = _add(sentence, f"{warm_lead // 1000}k tokens are cached there")
        elif looks is not None and not pointing and first == looks.because:
            sentence = _add(sentence, _say_gain(score, flip) if is_deep else "fast is still done sooner")
    return sentence


def _say_gain(score: float, flip: float | None) -> str:
    if flip is None:
        return "fast would not be done much sooner"
    return "{} chance of a long task, and fast takes what is under {}".format(*_percents(score, flip))


def _add(sentence: str, words: str) -> str:
    if words.startswith(sentence):
        return words
    return f"{sentence}; {words}" if len(sentence) + len(words) + 2 <= _MAX_CHARS else sentence


def _add_pointing(sentence: str, opinions: Opinions) -> str:
    """Add the strongest other evidence for fast."""
    for _, lean in opinions.leans:
        if not lean.names_turn and lean.log_odds <= -_TOLD_LOG_ODDS:
            return _add(sentence, lean.because)
    return sentence


def _warm_lead(chosen: str, other: str, signals: Signals) -> int:
    warm, tokens = signals.turn.position.warm, signals.prompt.tokens
    return min(warm.get(chosen, 0), tokens) - min(warm.get(other, 0), tokens)


def no_target_error(insist: Insist | None, reasons: Sequence[RuleOut]) -> str:
    asked = f"{insist.because}, but no target there can serve this request" if insist else "no target can serve this request"
    return f"{asked}: {'; '.join(dict.fromkeys(map(say_rule_out, reasons))) or 'no target is configured'}"


def explain(decision: Decision) -> JsonObject:
    """JSON for `/tandem/explain` and the command line."""
    weighing, signals = weighing_of(decision), decision.signals
    return {
        "tier": str(decision.tier),
        "targets": list(decision.targets),
        "spill": list(decision.spill),
        "score": round(decision.score, 6),
        "because": decision.because,
        "decided_by": decision.decided_by,
        "turn_kind": str(decision.turn.kind),
        "session": decision.turn.session,
        "as_if": say_as_if(decision.turn),
        "client": decision.turn.client,
        "person_text": decision.turn.person_text,
        "prompt_tokens": decision.prompt_tokens,
        "prompt_tokens_exact": signals.prompt.is_exact,
        "prompt_tokens_range": explain_range(signals.prompt.late_range),
        **explain_opinions(decision.opinions),
        **explain_weighing(weighing, decision.score, decision.decided_by, decision.economics, signals.shadow),
        **explain_combined(decision.combined, decision),
        "config": decision.config_fingerprint,
        "weights": decision.weights_fingerprint,
    }


def say_as_if(turn: Turn) -> str | None:
    """What a decision takes for granted of a conversation that its session does not remember; None if it does."""
    position = turn.position
    if turn.goes_on and not position.is_running:
        why = "the session is not known" if position.tier is None else "its session is in another turn now"
        return f"the turn began here: {why}"
    if turn.history.turns and position.tier is None:
        return "the session began here: what served its earlier turns is not known"
    return None


def explain_range(late_range: tuple[int, int] | None) -> Json:
    return None if late_range is None else list(late_range)


def explain_opinions(opinions: Opinions) -> JsonObject:
    return {
        "evidence": [_evidence_json(item) for item in evidence_of(opinions)],
        "skipped": [{"policy": entry.policy, "reason": entry.reason} for entry in opinions.skipped],
    }


def explain_weighing(
    weighing: Weighing, score: float, decided_by: str, worth: Worth, shadow: Mapping[str, float] = MappingProxyType({})
) -> JsonObject:
    """`shadow` names plans whose money is a shadow price: it is weighed, and nobody pays it."""
    estimates = estimates_of(weighing, score, worth)
    costs = [estimate.cost_usd for estimate in estimates.values()]
    flip = flip_of(weighing, score, worth) if decided_by == ESTIMATE else Flip(None, None)
    return {
        "estimates": {str(tier): _estimate_json(estimate, shadow, weighing.deep) for tier, estimate in estimates.items()},
        "redo": _redo_json(weighing.redo, score),
        "margin_usd": round(abs(costs[0] - costs[1]), 6) if len(costs) == 2 else None,
        "flip": {"score": _rounded(flip.score, 4), "fast_wait_seconds": _rounded(flip.fast_wait_seconds, 2)},
    }


class Combined(Protocol):
    """The part of a decision that says what both tiers did."""

    @property
    def combining(self) -> str: ...
    @property
    def look(self) -> LookEnd | None: ...
    @property
    def look_before(self) -> str: ...


def explain_combined(words: str | None, decision: Combined) -> JsonObject:
    return {
        "combining": decision.combining or None,
        "combined": words,
        "look": None if decision.look is None else to_builtins(decision.look),
        "look_before": decision.look_before or None,
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


def _estimate_json(estimate: Estimate, shadow: Mapping[str, float], deep: Projection | None) -> JsonObject:
    money, redo = estimate.money_usd, estimate.redo_usd
    shadow_usd = (money or 0.0) - redo if estimate.target in shadow else 0.0
    if deep is not None and deep.target in shadow:
        shadow_usd += redo
        redo = 0.0
    shown: JsonObject = {"shadow_usd": round(shadow_usd, 6)} if shadow_usd else {}
    return shown | {
        "target": estimate.target,
        "seconds": round(estimate.seconds, 3),
        "money_usd": None if money is None else round(money - shadow_usd, 6),
        "cost_usd": round(estimate.cost_usd, 6),
        "wait_seconds": round(estimate.wait_seconds, 3),
        "redo_seconds": round(estimate.redo_seconds, 3),
        "redo_usd": round(redo, 6),
        "calls_ratio": round(estimate.ratio.calls, 3),
        "output_ratio": round(estimate.ratio.output, 3),
    }


def _redo_json(redo: Redo | None, p: float) -> JsonObject | None:
    if redo is None:
        return None
    return {
        "chance": round(chance_of_redo(redo, p), 4),
        "seconds": round(redo.seconds + redo.seconds_slope * p, 3),
        "money_usd": round(redo.usd + redo.usd_slope * p, 6),
        "quick_rate": round(redo.quick_rate, 4),
        "long_rate": round(redo.long_rate, 4),
        "assumed": {"quick_rate": ASSUMED_RATES.quick, "long_rate": ASSUMED_RATES.long},
        "learned_turns": redo.turns,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
