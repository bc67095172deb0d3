"""Asking the policies. A policy that raises, or returns an invalid opinion, is skipped and named."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from router.contract.decision import Evidence, Skipped
from router.contract.opinions import Insist, Lean, Opinion, Policy, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals

_MAX_LOG_ODDS = 20.0


class Attributed(NamedTuple):
    """An opinion with the policy that holds it."""

    policy: str
    opinion: Opinion


class Opinions(NamedTuple):
    """Everything that was said, in an order that does not depend on the order of the policies."""

    insists: tuple[Attributed, ...]
    ruled_out: tuple[Attributed, ...]
    leans: tuple[Attributed, ...]
    skipped: tuple[Skipped, ...]

    def evidence(self) -> tuple[Evidence, ...]:
        """All opinions, strongest first within their kind."""
        return tuple(_as_evidence(attributed) for attributed in (*self.insists, *self.ruled_out, *self.leans))

    def with_lean(self, policy: str, lean: Lean) -> "Opinions":
        """One lean more, in its place."""
        return self._replace(leans=_sorted([*self.leans, Attributed(policy, lean)], _lean_order))


def collect(policies: Sequence[Policy], request: RequestView, signals: Signals) -> Opinions:
    """Ask every policy."""
    insists: list[Attributed] = []
    ruled_out: list[Attributed] = []
    leans: list[Attributed] = []
    skipped: list[Skipped] = []
    for policy in policies:
        try:
            opinions = policy.judge(request, signals)
            if not opinions:
                continue
            opinions = tuple(opinions)
            reason = _find_nonsense(opinions, signals)
        except Exception as error:  # noqa: BLE001  one policy's defect must not cost the caller their answer
            skipped.append(Skipped(policy.name, type(error).__name__))
            continue
        if reason is not None:
            skipped.append(Skipped(policy.name, reason))
            continue
        for opinion in opinions:
            kind = leans if type(opinion) is Lean else ruled_out if type(opinion) is RuleOut else insists
            kind.append(Attributed(policy.name, opinion))
    return Opinions(
        insists=_sorted(insists, _insist_order),
        ruled_out=_sorted(ruled_out, _rule_out_order),
        leans=_sorted(leans, _lean_order),
        skipped=tuple(sorted(skipped, key=lambda entry: entry.policy)) if skipped else (),
    )


def _sorted(attributed: list[Attributed], order: Callable[[Attributed], tuple[object, ...]]) -> tuple[Attributed, ...]:
    if len(attributed) > 1:
        attributed.sort(key=order)
    return tuple(attributed)


def _find_nonsense(opinions: Iterable[object], signals: Signals) -> str | None:
    for opinion in opinions:
        if not isinstance(opinion, (Lean, RuleOut, Insist)) or not isinstance(getattr(opinion, "because", None), str):
            return f"returned {type(opinion).__name__}, not an opinion"
        if isinstance(opinion, Lean):
            odds = opinion.log_odds
            if not isinstance(odds, (int, float)) or not -_MAX_LOG_ODDS <= odds <= _MAX_LOG_ODDS:
                return f"invalid log_odds {odds!r}"
        elif isinstance(opinion, Insist):
            tier, target = opinion.tier, opinion.target
            if (tier is None) == (target is None) or not isinstance(opinion.rank, Rank):
                return "an Insist needs a rank, and a tier or a target"
            if target is not None and target not in signals.statuses:
                return f"insists on an unknown target {str(target)[:40]!r}"
            if tier is not None and str(tier) not in ("fast", "deep"):
                return f"insists on an unknown tier {str(tier)[:40]!r}"
    return None


def _insist_order(attributed: Attributed) -> tuple[int, str, str]:
    opinion = attributed.opinion
    assert isinstance(opinion, Insist)
    return (-opinion.rank, attributed.policy, f"{opinion.tier}{opinion.target}")


def _rule_out_order(attributed: Attributed) -> tuple[str, bool, str]:
    opinion = attributed.opinion
    assert isinstance(opinion, RuleOut)
    return (opinion.target, not opinion.lasting, attributed.policy)


def _lean_order(attributed: Attributed) -> tuple[float, str]:
    opinion = attributed.opinion
    assert isinstance(opinion, Lean)
    return (-abs(opinion.log_odds), attributed.policy)


def _as_evidence(attributed: Attributed) -> Evidence:
    match attributed.opinion:
        case Lean(log_odds=odds, because=because):
            return Evidence(attributed.policy, "lean", because, log_odds=odds)
        case RuleOut(target=target, because=because, lasting=lasting, tokens=tokens):
            return Evidence(attributed.policy, "rule_out", because, target=target, is_lasting=lasting, tokens=tokens)
        case Insist(because=because, target=target, tier=tier, rank=rank):
            return Evidence(attributed.policy, "insist", because, target=target, tier=tier, rank=rank.name.lower())
