"""What would be decided if something were different: the prompt's length, a quota, a wait.

The house asks before it decides, and tells dispatch the rest with the decision (`Decided`).
"""

import math

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.errors import TandemError
from router.contract.facts import Decided
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount
from router.contract.words import Tier
from router.decide.choose import choose, decide
from router.decide.estimate import costs_of, weighing_of
from router.decide.opinions import SECOND_OPINION, Rules, collect, with_lean


def needs_exact_count(rules: Rules, request: RequestView, signals: Signals) -> bool:
    """Whether the two ends of the estimate's band decide differently: only then is an exact count worth its time.

    Policies read the count (a window's limit, a rule's `more_than_tokens`), so they are asked at each end.
    """
    try:
        low, high = (
            decide(rules, request, replace(signals, prompt=TokenCount(end, end, end)))
            for end in (signals.prompt.low, signals.prompt.high)
        )
    except TandemError:
        return True
    return low.tier is not high.tier or low.targets[:1] != high.targets[:1]


def foresee(rules: Rules, decided: Decided) -> Decided:
    """The same with what dispatch must know where requests wait for room at a target."""
    decision = decided.decision
    return replace(decided, worth_waiting_seconds=worth_waiting(decision), missed=_find_missed(rules, decided))


def worth_waiting(decision: Decision) -> float:
    """How long a wait at the chosen target may become until the other tier is the better choice.

    Any wait is, where somebody asked for this tier or no other can serve.
    """
    weighing = weighing_of(decision)
    fast, deep, redo = weighing.fast, weighing.deep, weighing.redo
    if decision.was_asked_for or not decision.spill or fast is None or deep is None or redo is None:
        return math.inf
    rate = decision.economics.usd_per_second
    if rate <= 0:
        return math.inf
    on_fast, on_deep = costs_of(fast, deep, redo, decision.score, decision.economics)
    chosen, lead = (fast, on_deep - on_fast) if decision.tier is Tier.FAST else (deep, on_fast - on_deep)
    return max(0.0, chosen.wait_seconds + lead / rate)


def _find_missed(rules: Rules, decided: Decided) -> str:
    """The target with a quota that the request would have gone to if no quota were used up, and does not."""
    decision = decided.decision
    statuses, chosen = decision.signals.statuses, decision.targets[0]
    full = [
        name
        for name, status in statuses.items()
        if status.target.quota is not None and name != chosen and (status.wait_seconds or status.closed_seconds)
    ]
    missed = target_without_quotas(rules, decided) if full else ""
    return missed if missed in full else ""


def target_without_quotas(rules: Rules, decided: Decided) -> str:
    """Which target a request would go to if none had a quota; empty for none.

    Policies read waits (a running turn leaves a tier with a long one), so they are asked again.
    """
    signals = decided.decision.signals
    statuses = {
        name: status if status.target.quota is None else status._replace(wait_seconds=0.0, closed_seconds=0.0)
        for name, status in signals.statuses.items()
    }
    signals = replace(signals, statuses=statuses)
    opinions = collect(rules, decided.view, signals)
    for policy, lean in decided.opinions.leans:
        if policy == SECOND_OPINION:
            opinions = with_lean(opinions, policy, lean)
    try:
        return choose(rules, decided.view, signals, opinions).targets[0]
    except TandemError:
        return ""
