"""The decision itself: insist, rule out, odds, estimate, and nothing else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from router.contract.decision import Decision, Estimate, Flip
from router.contract.errors import Misfit, TandemError, TiersBusy, TooLong
from router.contract.opinions import Insist, Lean, Policy, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount
from router.contract.words import PERSONS_KINDS, Tier
from router.decide.estimate import Economics, Projection, find_flip, project, weigh, weigh_with_redo
from router.decide.explain import because_estimate, because_insist, because_only_tier, no_target_error
from router.decide.opinions import Opinions, collect

ESTIMATE = "estimate"
"""Who decided when no opinion insisted and both tiers could serve."""
PERSONAL = "personal"
"""Who holds the config's own offset among the evidence."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision is made by, besides the request: the policies, the economics, and whether work may spill over."""

    policies: Sequence[Policy]
    economics: Economics
    spill_over: bool
    config_fingerprint: str
    weights_fingerprint: str = ""


def decide(rules: Rules, request: RequestView, signals: Signals) -> Decision:
    """Choose the tier and its targets, and say why. Raises a `TandemError` when nothing can serve the request."""
    economics = rules.economics
    opinions = collect(rules.policies, request, signals)
    if economics.personal_log_odds and signals.turn.kind in PERSONS_KINDS:
        opinions = opinions.with_lean(PERSONAL, Lean(economics.personal_log_odds, "your own history leans this way"))
    ruled_out = _fold_rule_outs(opinions) if opinions.ruled_out else {}
    score = _score(economics, opinions)
    projections = _project_tiers(signals, ruled_out, score, economics)
    open_targets = {tier: tuple([projection.target for projection in open_ones]) for tier, open_ones in projections.items()}
    estimates = _estimate(projections, score, economics)
    tier, targets, because, decided_by, may_spill = _pick(request, signals, opinions, ruled_out, open_targets, estimates)
    return Decision(
        tier=tier,
        targets=targets,
        spill=open_targets[tier.other] if may_spill and rules.spill_over else (),
        score=score,
        because=because,
        decided_by=decided_by,
        evidence=opinions.evidence(),
        estimates=estimates,
        margin_usd=abs(estimates[Tier.FAST].cost_usd - estimates[Tier.DEEP].cost_usd) if len(estimates) == 2 else None,
        flip=_find_flip(projections, score, economics) if decided_by is ESTIMATE else Flip(None, None),
        skipped=opinions.skipped,
        turn=signals.turn,
        prompt_tokens=signals.prompt.tokens,
        prompt_is_exact=signals.prompt.is_exact,
        config_fingerprint=rules.config_fingerprint,
        weights_fingerprint=rules.weights_fingerprint,
        was_asked_for=_is_asked_for(opinions),
    )


def _is_asked_for(opinions: Opinions) -> bool:
    """Whether the strongest that insisted is more than the running turn's habit."""
    first = opinions.insists[0].opinion if opinions.insists else None
    return isinstance(first, Insist) and first.rank > Rank.RUNNING_TURN


def _fold_rule_outs(opinions: Opinions) -> dict[str, RuleOut]:
    """The weightiest reason against each target; a lasting one outweighs a passing one."""
    folded: dict[str, RuleOut] = {}
    for attributed in opinions.ruled_out:
        opinion = attributed.opinion
        if isinstance(opinion, RuleOut):
            folded.setdefault(opinion.target, opinion)
    return folded


def _score(economics: Economics, opinions: Opinions) -> float:
    """The chance that this turn is a long task. A sum, so that every policy's share can be shown."""
    leans = [lean.opinion.log_odds for lean in opinions.leans if isinstance(lean.opinion, Lean)]
    odds = math.fsum([economics.prior, *leans])
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, odds))))


def _project_tiers(
    signals: Signals, ruled_out: Mapping[str, RuleOut], score: float, economics: Economics
) -> dict[Tier, list[Projection]]:
    """What each target that can serve would take, by tier, cheapest first; equals stay in the order of the config."""
    tokens, position = signals.prompt.tokens, signals.turn.position
    projections: dict[Tier, list[Projection]] = {Tier.FAST: [], Tier.DEEP: []}
    for name, status in signals.statuses.items():
        if name not in ruled_out:
            tier = status.target.tier
            hop_seconds = economics.hop_seconds if position.tier is not None and position.tier is not tier else 0.0
            projections[tier].append(project(status, tokens, economics, position.warm.get(name, 0), hop_seconds))
    for open_ones in projections.values():
        if len(open_ones) > 1:
            open_ones.sort(key=lambda projection: weigh(projection, score, economics).cost_usd)
    return projections


def _estimate(projections: Mapping[Tier, list[Projection]], score: float, economics: Economics) -> dict[Tier, Estimate]:
    fast, deep = projections[Tier.FAST], projections[Tier.DEEP]
    if not deep:
        return {Tier.FAST: weigh(fast[0], score, economics)} if fast else {}
    redo = weigh(deep[0], score, economics)
    return {Tier.FAST: weigh_with_redo(fast[0], redo, score, economics), Tier.DEEP: redo} if fast else {Tier.DEEP: redo}


def _find_flip(projections: Mapping[Tier, list[Projection]], score: float, economics: Economics) -> Flip:
    fast, deep = projections[Tier.FAST], projections[Tier.DEEP]
    flip = find_flip(fast[0], deep[0], score, economics)
    # With a second fast target, a queue at the first moves the work to that one, not to the other tier.
    return flip if len(fast) == 1 else Flip(flip.score, None)


def _pick(
    request: RequestView,
    signals: Signals,
    opinions: Opinions,
    ruled_out: Mapping[str, RuleOut],
    open_targets: Mapping[Tier, tuple[str, ...]],
    estimates: Mapping[Tier, Estimate],
) -> tuple[Tier, tuple[str, ...], str, str, bool]:
    """Tier, targets, the sentence, who decided, and whether a failed attempt may go to the other tier."""
    if opinions.insists:
        attributed = opinions.insists[0]
        opinion = attributed.opinion
        assert isinstance(opinion, Insist)
        tier, wanted = _wanted(opinion, signals)
        targets = tuple(name for name in open_targets[tier] if name in wanted)
        if targets:
            return tier, targets, because_insist(opinion), attributed.policy, opinion.yields
        if opinion.yields and open_targets[tier.other]:
            because = f"{opinion.because}, but {_main_reason(ruled_out, wanted)}"
            return tier.other, open_targets[tier.other], because, attributed.policy, False
        if not request.overrides.other_on_misfit or not open_targets[tier.other]:
            raise _refusal(request, signals, ruled_out, wanted, opinion)
        because = (
            f"{opinion.because}, but {_main_reason(ruled_out, wanted)}; {tier.other} instead, as x-tandem-on-misfit allows"
        )
        return tier.other, open_targets[tier.other], because, attributed.policy, False
    if not estimates:
        raise _refusal(request, signals, ruled_out, tuple(signals.statuses), None)
    if len(estimates) == 1:
        tier = next(iter(estimates))
        others = [name for name, status in signals.statuses.items() if status.target.tier is tier.other]
        reason = _main_reason(ruled_out, others) if others else f"no {tier.other} target is configured"
        return tier, open_targets[tier], because_only_tier(tier, reason), "rule_out", False
    tier = Tier.FAST if estimates[Tier.FAST].cost_usd < estimates[Tier.DEEP].cost_usd else Tier.DEEP
    warm = _warm_lead(signals, estimates, tier)
    return tier, open_targets[tier], because_estimate(tier, estimates, opinions, warm), ESTIMATE, True


def _warm_lead(signals: Signals, estimates: Mapping[Tier, Estimate], tier: Tier) -> int:
    """How many more tokens of the conversation are warm on the chosen tier than on the other."""
    warm, most = signals.turn.position.warm, signals.prompt.tokens
    if not warm:
        return 0
    here, there = (min(warm.get(estimates[side].target, 0), most) for side in (tier, tier.other))
    return here - there


def _wanted(opinion: Insist, signals: Signals) -> tuple[Tier, tuple[str, ...]]:
    if opinion.target is not None:
        return signals.statuses[opinion.target].target.tier, (opinion.target,)
    assert opinion.tier is not None
    names = tuple(name for name, status in signals.statuses.items() if status.target.tier is opinion.tier)
    return opinion.tier, names


def _main_reason(ruled_out: Mapping[str, RuleOut], names: Sequence[str]) -> str:
    return next((f"{name} cannot: {ruled_out[name].because}" for name in names if name in ruled_out), "that tier has no target")


def _refusal(
    request: RequestView,
    signals: Signals,
    ruled_out: Mapping[str, RuleOut],
    names: Sequence[str],
    insist: Insist | None,
) -> TandemError:
    """Why nothing can serve this: lasting reasons make a 4xx with the facts, passing ones a 429 with the wait."""
    reasons = [ruled_out[name] for name in names if name in ruled_out]
    passing = [reason for reason in reasons if not reason.lasting]
    if passing:
        waits = [reason.wait_seconds for reason in passing if reason.wait_seconds is not None]
        return TiersBusy(no_target_error(insist, passing), retry_after_seconds=min(waits) if waits else None)
    by_length = [reason.tokens for reason in reasons if reason.tokens is not None]
    if reasons and len(by_length) == len(reasons):
        needed, window = max(by_length, key=lambda pair: pair[1])
        asked = f"{insist.because}, and no target there has a larger window" if insist else "no target has a larger window"
        return TooLong(f"prompt is too long: {needed} tokens > {window} maximum. {asked[:1].upper()}{asked[1:]}")
    return Misfit(no_target_error(insist, reasons), param="model" if insist is None else None)


def needs_exact_count(rules: Rules, request: RequestView, signals: Signals) -> bool:
    """Whether the two ends of the estimate's band decide differently: only then is an exact count worth its time."""
    try:
        low, high = (
            decide(rules, request, signals._replace(prompt=TokenCount(end, end, end)))
            for end in (signals.prompt.low, signals.prompt.high)
        )
    except TandemError:
        return True
    return low.tier is not high.tier or low.targets[:1] != high.targets[:1]
