"""Asks the policies. One that raises or returns an invalid opinion is skipped and named."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.contract.decision import Evidence
from router.contract.economics import Economics
from router.contract.errors import UpstreamLoading
from router.contract.opinions import BUDGET, Insist, Lean, Opinion, Opinions, Policy, Rank, RuleOut, Skipped
from router.contract.request import RequestView
from router.contract.rights import Rights, check_tier, rights_in
from router.contract.signals import Signals
from router.contract.target import TargetStatus

OBJECTIONS = "objections"
"""Source of leans from words about deep's objections, added to those of policies."""
ASIDE = frozenset({"personal", BUDGET})
"""Sources of leans that are not about the turn; the first is of an older release."""
CLOSED, MAX_WAIT, LOADING, PLAN = "retry_after", "max_wait", "loading", "plan"
"""Sources of rule-outs that targets or the config cause."""
_MAX_LOG_ODDS = 20.0
_OVERRIDE = "override"
"""The policy that speaks for callers. Insists of others are the operator's."""
_BY_HEADER = "x-tandem-tier: auto"
_BY_LINE = "begin your next message with the line `tier: auto`"
_WAYS_OUT = {
    Rank.HEADER: f"Send {_BY_HEADER}, or leave the header out",
    Rank.IN_BAND_LINE: f"Remove the line, or {_BY_LINE}",
    Rank.SESSION_SCOPE: f"To set the session back, {_BY_LINE}, or send {_BY_HEADER} with x-tandem-scope: session",
}
_BY_NAME = "Ask for the model auto"


class Rules(Struct, frozen=True):
    policies: Sequence[Policy]
    economics: Economics
    spill_over: bool
    config_fingerprint: str
    weights_fingerprint: str = ""
    rights: Mapping[str, Rights] | None = None
    """By caller name; None if everyone may do everything."""


def collect(rules: Rules, request: RequestView, signals: Signals) -> Opinions:
    """Ask every policy once; `choose` may decide from the result any number of times.

    Collect again only when signals that policies read have changed: an exact count, or waits. Raises `NotPermitted` for a
    caller that may not force what it asks for.
    """
    insists: list[tuple[str, Insist]] = []
    ruled_out: list[tuple[str, RuleOut]] = []
    leans: list[tuple[str, Lean]] = []
    skipped: list[Skipped] = []
    for policy in rules.policies:
        try:
            opinions = policy.judge(request, signals)
            if not opinions:
                continue
            opinions = tuple(opinions)
            for opinion in opinions:
                _check(opinion, signals)
        except _Nonsense as nonsense:
            skipped.append(Skipped(policy.name, str(nonsense)))
            continue
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  one policy's defect, be it a panic in Rust, must not cost the answer
            skipped.append(Skipped(policy.name, type(error).__name__))
            continue
        for opinion in opinions:
            if isinstance(opinion, Lean):
                leans.append((policy.name, opinion))
            elif isinstance(opinion, Insist):
                insists.append((policy.name, opinion))
            else:
                ruled_out.append((policy.name, opinion))
    if len(leans) > 1:
        leans.sort(key=_lean_order)
    if not insists and not ruled_out and not skipped:
        return Opinions(leans=tuple(leans))
    insists.sort(key=_insist_order)
    if insists and rules.rights is not None:
        check_forced(*insists[0], signals.statuses, rights_in(rules.rights, request.caller.name))
    ruled_out.sort(key=_rule_out_order)
    skipped.sort(key=lambda entry: entry.policy)
    return Opinions(tuple(insists), tuple(ruled_out), tuple(leans), tuple(skipped))


def with_lean(opinions: Opinions, policy: str, lean: Lean) -> Opinions:
    return replace(opinions, leans=tuple(sorted([*opinions.leans, (policy, lean)], key=_lean_order)))


def without_closed(opinions: Opinions, signals: Signals) -> Opinions:
    """Rule out targets that asked to be left alone, are loading, or exceed their `max_wait_seconds`."""
    closed = [status for status in signals.statuses.values() if status.closed_seconds]
    more = [_rule_out_closed(status) for status in closed]
    return replace(opinions, ruled_out=tuple(sorted([*opinions.ruled_out, *more], key=_rule_out_order)))


def _rule_out_closed(status: TargetStatus) -> tuple[str, RuleOut]:
    if status.loading:
        error = UpstreamLoading(status.target.name, status.loading)
        return LOADING, RuleOut(error.target, error.message, lasting=False, wait_seconds=status.closed_seconds)
    if status.used_up:
        wait, yields = status.closed_seconds, status.may_probe
        return PLAN, RuleOut(status.target.name, status.used_up, lasting=False, wait_seconds=wait, yields=yields)
    return (MAX_WAIT, _too_busy(status)) if status.is_over_max_wait else (CLOSED, _left_alone(status))


def _left_alone(status: TargetStatus) -> RuleOut:
    name, seconds = status.target.name, status.closed_seconds
    because = f"{name} asked to be retried in {math.ceil(seconds)} s"
    return RuleOut(name, because, lasting=False, wait_seconds=seconds, yields=status.may_probe)


def _too_busy(status: TargetStatus) -> RuleOut:
    because = f"{say_wait(status)}, longer than its max_wait_seconds of {status.target.max_wait_seconds:g}"
    return RuleOut(status.target.name, because, lasting=False, wait_seconds=status.closed_seconds, yields=True)


def say_wait(status: TargetStatus) -> str:
    """Why a target keeps requests waiting. Begins with its name."""
    return status.wait_because or f"{status.target.name} would keep you waiting {math.ceil(status.wait_seconds)} s"


def spare(opinions: Opinions, request: RequestView, signals: Signals) -> tuple[Opinions, str]:
    """Drop rule-outs that yield if no target would be left, and say why they were there."""
    ruled_out = {opinion.target for _, opinion in opinions.ruled_out}
    first = opinions.insists[0][1] if opinions.insists else None
    if first is None or first.yields or request.overrides.other_on_misfit:
        wanted = set(signals.statuses)
    else:
        own = ((name, status.target.tier) for name, status in signals.statuses.items())
        wanted = {name for name, tier in own if name == first.target or tier is first.tier}
    if wanted - ruled_out:
        return opinions, ""
    spared = [opinion for _, opinion in opinions.ruled_out if opinion.yields and opinion.target in wanted]
    kept = tuple(held for held in opinions.ruled_out if held[1] not in spared)
    return replace(opinions, ruled_out=kept), "; ".join(dict.fromkeys(opinion.because for opinion in spared))


def evidence_of(opinions: Opinions) -> tuple[Evidence, ...]:
    held: list[tuple[str, Opinion]] = [*opinions.insists, *opinions.ruled_out, *opinions.leans]
    return tuple(_as_evidence(policy, opinion) for policy, opinion in held)


class _Nonsense(Exception):
    pass


def _check(opinion: object, signals: Signals) -> None:
    if isinstance(opinion, Lean):
        odds = opinion.log_odds
        if not isinstance(odds, (int, float)) or not abs(odds) <= _MAX_LOG_ODDS:
            raise _Nonsense(f"invalid log_odds {odds!r}")
    elif isinstance(opinion, Insist):
        tier, target = opinion.tier, opinion.target
        if (tier is None) == (target is None) or not isinstance(opinion.rank, Rank):
            raise _Nonsense("an Insist needs a rank, and a tier or a target")
        if target is not None and target not in signals.statuses:
            raise _Nonsense(f"insists on an unknown target {str(target)[:40]!r}")
        if tier is not None and str(tier) not in ("fast", "deep"):
            raise _Nonsense(f"insists on an unknown tier {str(tier)[:40]!r}")
    elif not isinstance(opinion, RuleOut):
        raise _Nonsense(f"returned {type(opinion).__name__}, not an opinion")
    if not isinstance(opinion.because, str):
        raise _Nonsense(f"gives {type(opinion.because).__name__} as its reason, not text")


def _insist_order(held: tuple[str, Insist]) -> tuple[int, str, str]:
    policy, opinion = held
    return (-opinion.rank, policy, f"{opinion.tier}{opinion.target}")


def _rule_out_order(held: tuple[str, RuleOut]) -> tuple[str, bool, str]:
    policy, opinion = held
    return (opinion.target, not opinion.lasting, policy)


def _lean_order(held: tuple[str, Lean]) -> tuple[float, str]:
    policy, opinion = held
    return (-abs(opinion.log_odds), policy)


def _as_evidence(policy: str, opinion: Opinion) -> Evidence:
    match opinion:
        case Lean(log_odds=odds, because=because):
            return Evidence(policy, "lean", because, log_odds=odds)
        case RuleOut(target=target, because=because, lasting=lasting, tokens=tokens):
            return Evidence(policy, "rule_out", because, target=target, is_lasting=lasting, tokens=tokens)
        case Insist(because=because, target=target, tier=tier, rank=rank):
            return Evidence(policy, "insist", because, target=target, tier=tier, rank=rank.name.lower())


def check_forced(policy: str, insist: Insist, statuses: Mapping[str, TargetStatus], rights: Rights) -> None:
    """Refuse the deciding insist if its caller may not force that tier. Raises `NotPermitted`."""
    if policy != _OVERRIDE:
        return
    tier = insist.tier if insist.target is None else statuses[insist.target].target.tier
    check_tier(tier, insist.because, rights, _WAYS_OUT.get(insist.rank, _BY_NAME))
