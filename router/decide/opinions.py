"""Asking the policies. One that raises, or answers what is no opinion, is skipped and named."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from router.contract.decision import Evidence, Skipped
from router.contract.opinions import Insist, Lean, Opinion, Policy, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier

_MOST_LOG_ODDS = 20.0


@dataclass(frozen=True, slots=True)
class Held:
    """An opinion with the policy that holds it."""

    policy: str
    opinion: Opinion


@dataclass(frozen=True, slots=True)
class Hearing:
    """Everything that was said, in an order that does not depend on the order of the policies."""

    insists: tuple[Held, ...]
    ruled_out: tuple[Held, ...]
    leans: tuple[Held, ...]
    skipped: tuple[Skipped, ...]

    def evidence(self) -> tuple[Evidence, ...]:
        """All opinions, strongest first within their kind."""
        return tuple(_as_evidence(held) for held in (*self.insists, *self.ruled_out, *self.leans))


def hear(policies: Sequence[Policy], request: RequestView, signals: Signals) -> Hearing:
    """Ask every policy."""
    held: list[Held] = []
    skipped: list[Skipped] = []
    for policy in policies:
        try:
            opinions = tuple(policy.judge(request, signals))
            reason = _find_nonsense(opinions, signals)
        except Exception as error:  # noqa: BLE001  one policy's defect must not cost the caller their answer
            skipped.append(Skipped(policy.name, type(error).__name__))
            continue
        if reason:
            skipped.append(Skipped(policy.name, reason))
        else:
            held.extend(Held(policy.name, opinion) for opinion in opinions)
    return Hearing(
        insists=tuple(sorted((h for h in held if isinstance(h.opinion, Insist)), key=_insist_order)),
        ruled_out=tuple(sorted((h for h in held if isinstance(h.opinion, RuleOut)), key=_rule_out_order)),
        leans=tuple(sorted((h for h in held if isinstance(h.opinion, Lean)), key=_lean_order)),
        skipped=tuple(sorted(skipped, key=lambda entry: entry.policy)),
    )


def _find_nonsense(opinions: Iterable[object], signals: Signals) -> str | None:
    for opinion in opinions:
        if not isinstance(getattr(opinion, "because", None), str):
            return f"answered {type(opinion).__name__} without a reason"
        match opinion:
            case Lean(log_odds=odds):
                if not isinstance(odds, (int, float)) or not math.isfinite(odds) or abs(odds) > _MOST_LOG_ODDS:
                    return f"log_odds {odds!r}"
            case Insist(tier=tier, target=target, rank=rank):
                if (tier is None) == (target is None) or not isinstance(rank, Rank):
                    return "an Insist needs a rank, and a tier or a target"
                if target is not None and target not in signals.standings:
                    return f"insists on an unknown target {str(target)[:40]!r}"
                if tier is not None and tier not in tuple(Tier):
                    return f"insists on an unknown tier {str(tier)[:40]!r}"
            case RuleOut():
                pass
            case _:
                return f"answered {type(opinion).__name__}"
    return None


def _insist_order(held: Held) -> tuple[int, str, str]:
    opinion = held.opinion
    assert isinstance(opinion, Insist)
    return (-opinion.rank, held.policy, f"{opinion.tier}{opinion.target}")


def _rule_out_order(held: Held) -> tuple[str, bool, str]:
    opinion = held.opinion
    assert isinstance(opinion, RuleOut)
    return (opinion.target, not opinion.lasting, held.policy)


def _lean_order(held: Held) -> tuple[float, str]:
    opinion = held.opinion
    assert isinstance(opinion, Lean)
    return (-abs(opinion.log_odds), held.policy)


def _as_evidence(held: Held) -> Evidence:
    match held.opinion:
        case Lean(log_odds=odds, because=because):
            return Evidence(held.policy, "lean", because, log_odds=odds)
        case RuleOut(target=target, because=because):
            return Evidence(held.policy, "rule_out", because, target=target)
        case Insist(because=because, target=target):
            return Evidence(held.policy, "insist", because, target=target)
