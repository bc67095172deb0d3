"""The decision: insist, rule out, odds, estimate."""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct, structs

from router.contract.decision import ESTIMATE, Decision, Ranked, Weighing
from router.contract.economics import Economics
from router.contract.errors import Misfit, TandemError, TiersBusy, TooLong, UpstreamLoading
from router.contract.opinions import Insist, Opinions, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier
from router.decide.estimate import costs_of, count_alike, project_first, rank_tier, redo_between, weigh_up
from router.decide.explain import LATE_COUNT, because_estimate, because_only_tier, because_out, no_target_error, say_rule_out
from router.decide.length import because_too_long, say_too_long, say_way_back
from router.decide.opinions import PLAN, Rules, collect, spare, without_closed

_closed_seconds = attrgetter("closed_seconds")
_NOTHING_RULED_OUT: Mapping[str, RuleOut] = {}
_NOTHING_ASIDE: "_Aside | None" = None
_FAST, _DEEP = Tier.FAST, Tier.DEEP
_CLOSE = 1.25
"""A tier at up to this many times the chosen one's cost was nearly chosen."""


class _Choice(Struct, frozen=True):
    tier: Tier
    targets: Ranked
    because: str
    decided_by: str
    spill: tuple[str, ...] = ()
    weighing: Weighing | None = None
    is_close: bool = False
    ranked: tuple[Ranked, Ranked] | None = None


def decide(rules: Rules, request: RequestView, signals: Signals) -> Decision:
    return choose(rules, request, signals, collect(rules, request, signals))


def choose(rules: Rules, request: RequestView, signals: Signals, opinions: Opinions, *, says_way_back: bool = True) -> Decision:
    """Pure, and asks no policy. Raises a `TandemError` when nothing can serve. Trials leave out the costly way back to fast."""
    economics = rules.economics
    if any(map(_closed_seconds, signals.statuses.values())):
        collected, opinions = opinions, without_closed(opinions, signals)
        if not rules.spill_over and not opinions.insists:
            opinions = _keep_to_tier(rules, request, signals, collected, opinions)
    ruled_out, aside = _NOTHING_RULED_OUT, _NOTHING_ASIDE
    if opinions.ruled_out:
        opinions, spared = spare(opinions, request, signals)
        ruled_out = _fold_rule_outs(opinions)
        aside = _find_aside(opinions, spared)
    score = _score(economics.prior, opinions)
    if opinions.insists:
        choice = _obey(request, signals, opinions, ruled_out, score, economics)
        was_asked_for = opinions.insists[0][1].rank > Rank.RUNNING_TURN  # not just the running turn's habit
    else:
        choice, was_asked_for = _estimate(signals, opinions, ruled_out, score, economics, says_way_back), False
    targets = choice.targets.names
    return Decision(
        choice.tier,
        targets,
        choice.spill if rules.spill_over else (),
        score,
        _because(choice, aside, signals, was_asked_for) if aside or signals.prompt.late_range else choice.because,
        choice.decided_by,
        opinions,
        signals,
        economics,
        signals.turn,
        signals.prompt.tokens,
        choice.weighing,
        rules.config_fingerprint,
        rules.weights_fingerprint,
        was_asked_for,
        alike=count_alike(choice.targets, signals, score, economics) if len(targets) > 1 else 1,
        rival=choice.spill[0] if choice.is_close else "",
        ranked=choice.ranked,
    )


class _Aside(NamedTuple):
    """What a decision's sentence adds: why the targets that it took nevertheless were out, and plans that are used up."""

    spared: str
    plans: Mapping[str, str]


def _find_aside(opinions: Opinions, spared: str) -> _Aside | None:
    plans = {opinion.target: opinion.because for policy, opinion in opinions.ruled_out if policy == PLAN}
    return _Aside(spared, plans) if spared or plans else None


def _because(choice: _Choice, aside: _Aside | None, signals: Signals, was_asked_for: bool) -> str:
    told, (spared, plans) = choice.because, aside or _Aside("", {})
    out = [because for name, because in plans.items() if signals.statuses[name].target.tier is choice.tier]
    if out and choice.targets.names:
        told = f"{out[0]}, so {choice.targets.names[0]} answers: {told}"
    if spared:
        told = f"{told}; {spared}"
    if spared and not was_asked_for:
        told += ", and nothing else can serve this"
    return f"{told}; {LATE_COUNT}" if signals.prompt.late_range else told


def _keep_to_tier(rules: Rules, request: RequestView, signals: Signals, collected: Opinions, opinions: Opinions) -> Opinions:
    """Without spill-over, refuse work that would leave its tier only because that asked to be left alone.

    Once a minute a request goes there anyway: a target's stated wait may be wrong.
    """
    opened = {
        name: status if status.is_over_max_wait else structs.replace(status, closed_seconds=0.0)
        for name, status in signals.statuses.items()
    }
    tier = choose(structs.replace(rules, spill_over=True), request, structs.replace(signals, statuses=opened), collected).tier
    own = [name for name, status in signals.statuses.items() if status.target.tier is tier]
    ruled_out = _fold_rule_outs(opinions)
    if all(name in ruled_out and not ruled_out[name].yields for name in own):
        raise _refusal(signals, ruled_out, own, None)
    if all(name in ruled_out for name in own):
        probed = {name for name in own if signals.statuses[name].may_probe}
        return structs.replace(opinions, ruled_out=tuple(held for held in opinions.ruled_out if held[1].target not in probed))
    return opinions


def _fold_rule_outs(opinions: Opinions) -> dict[str, RuleOut]:
    """`collect` puts the weightiest reason against a target first."""
    folded: dict[str, RuleOut] = {}
    for _, opinion in opinions.ruled_out:
        folded.setdefault(opinion.target, opinion)
    return folded


def _score(prior: float, opinions: Opinions) -> float:
    """Chance of a long task. A sum, so that every policy's share can be shown."""
    odds = prior
    for _, lean in opinions.leans:
        odds += lean.log_odds
    try:
        return 1.0 / (1.0 + math.exp(-odds))
    except OverflowError:
        return 0.0


def _obey(
    request: RequestView,
    signals: Signals,
    opinions: Opinions,
    ruled_out: Mapping[str, RuleOut],
    score: float,
    economics: Economics,
) -> _Choice:
    """Only the order of targets is weighed."""
    policy, opinion = opinions.insists[0]
    tier = opinion.tier
    if tier is not None:
        targets = rank_tier(signals, ruled_out, tier, score, economics)
    else:
        assert opinion.target is not None
        tier = signals.statuses[opinion.target].target.tier
        targets = Ranked(() if opinion.target in ruled_out else (opinion.target,), 0.0)
    if targets.names and not opinion.yields and not request.overrides.other_on_misfit:
        return _Choice(tier, targets, opinion.because, policy)
    others = rank_tier(signals, ruled_out, tier.other, score, economics)
    if targets.names:
        both = (targets, others) if tier is Tier.FAST else (others, targets)
        ranked = both if opinion.target is None else None
        return _Choice(tier, targets, opinion.because, policy, others.names, ranked=ranked)
    wanted = _wanted(opinion, signals)
    because = f"{opinion.because}, but {_main_reason(ruled_out, wanted)}"
    if opinion.yields and others.names:
        way_back = say_way_back(ruled_out, wanted) if tier is Tier.FAST else ""
        return _Choice(tier.other, others, f"{opinion.because}, but {way_back}" if way_back else because, policy)
    if not request.overrides.other_on_misfit or not others.names:
        raise _refusal(signals, ruled_out, wanted, opinion, tier.other if others.names else None)
    return _Choice(tier.other, others, f"{because}; {tier.other} instead, as x-tandem-on-misfit allows", policy)


def _estimate(
    signals: Signals,
    opinions: Opinions,
    ruled_out: Mapping[str, RuleOut],
    score: float,
    economics: Economics,
    says_way_back: bool,
) -> _Choice:
    fast = rank_tier(signals, ruled_out, _FAST, score, economics)
    deep = rank_tier(signals, ruled_out, _DEEP, score, economics)
    if not fast.names or not deep.names:
        told = because_too_long(signals, opinions, ruled_out, score, economics) if deep.names and says_way_back else ""
        weighing = weigh_up(fast, deep, signals, economics)
        return _take_only_tier(signals, opinions, ruled_out, fast if fast.names else deep, weighing, told, score)
    best_fast, best_deep = project_first(fast, signals, economics), project_first(deep, signals, economics)
    redo = redo_between(best_fast, best_deep, signals, economics)
    fast_cost, deep_cost = costs_of(best_fast, best_deep, redo, score, economics)
    weighing = Weighing(best_fast, best_deep, len(fast.names) > 1, redo)
    if fast_cost < deep_cost:
        because = because_estimate(_FAST, weighing, score, opinions, signals, deep_cost - fast_cost, economics)
        return _Choice(_FAST, fast, because, ESTIMATE, deep.names, weighing, deep_cost <= fast_cost * _CLOSE)
    because = because_estimate(_DEEP, weighing, score, opinions, signals, fast_cost - deep_cost, economics)
    return _Choice(_DEEP, deep, because, ESTIMATE, fast.names, weighing, fast_cost <= deep_cost * _CLOSE)


def _take_only_tier(
    signals: Signals,
    opinions: Opinions,
    ruled_out: Mapping[str, RuleOut],
    open_ones: Ranked,
    weighing: Weighing,
    too_long: str,
    score: float,
) -> _Choice:
    if not open_ones.names:
        raise _refusal(signals, ruled_out, tuple(signals.statuses), None)
    tier = signals.statuses[open_ones.names[0]].target.tier
    others = [name for name, status in signals.statuses.items() if status.target.tier is tier.other]
    passing = [ruled_out[name] for name in others if not ruled_out[name].lasting]
    if passing:
        because = because_out(tier, passing, opinions, score, open_ones.names[0])
    else:
        reason = _main_reason(ruled_out, others) if others else f"no {tier.other} target is configured"
        because = too_long or because_only_tier(tier, reason)
    return _Choice(tier, open_ones, because, "rule_out", weighing=weighing)


def _wanted(opinion: Insist, signals: Signals) -> tuple[str, ...]:
    if opinion.target is not None:
        return (opinion.target,)
    return tuple(name for name, status in signals.statuses.items() if status.target.tier is opinion.tier)


def _main_reason(ruled_out: Mapping[str, RuleOut], names: Sequence[str]) -> str:
    reasons = (ruled_out[name] for name in names if name in ruled_out)
    return next(map(_say_cannot, reasons), "that tier has no target")


def _say_cannot(reason: RuleOut) -> str:
    if reason.is_right:
        return reason.because
    return f"{reason.target} cannot: {reason.because}" if reason.lasting else say_rule_out(reason)


def _refusal(
    signals: Signals, ruled_out: Mapping[str, RuleOut], names: Sequence[str], insist: Insist | None, way_out: Tier | None = None
) -> TandemError:
    """A 4xx for lasting reasons, a 429 with the wait for passing ones."""
    reasons = [ruled_out[name] for name in names if name in ruled_out]
    passing = [reason for reason in reasons if not reason.lasting]
    if passing:
        waits = [reason.wait_seconds for reason in passing if reason.wait_seconds is not None]
        wait, words = min(waits) if waits else None, no_target_error(insist, passing)
        loading = [status for reason in passing if (status := signals.statuses[reason.target]).loading]
        own = [status.refusal for reason in passing if (status := signals.statuses[reason.target]).refusal is not None]
        if own:
            return own[0]
        if len(loading) == len(passing):
            first = loading[0]
            return UpstreamLoading(first.target.name, first.loading).reworded(words)
        return TiersBusy(words, retry_after_seconds=wait)
    too_long = [reason for reason in reasons if reason.tokens is not None]
    if too_long and all(reason.is_right for reason in reasons if reason.tokens is None):
        return TooLong(say_too_long(reasons, insist))
    hint = f". Ask for {way_out} or auto, or send x-tandem-on-misfit: other" if way_out else ""
    if rights := [reason.because for reason in ruled_out.values() if reason.is_right and reason not in reasons]:
        hint = f"; {rights[0]}"
    return Misfit(no_target_error(insist, reasons) + hint, param="model" if insist is None else None)
