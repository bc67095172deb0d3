"""Whether a second opinion is worth asking for: its value of information, from the decision's own figures."""

import math

from msgspec.structs import replace

from router.contract.decision import ESTIMATE, Decision
from router.contract.economics import Economics
from router.contract.facts import Decided
from router.contract.opinions import Lean
from router.contract.target import TargetStatus
from router.contract.words import Tier, TurnKind
from router.decide.alternatives import foresee
from router.decide.choose import choose
from router.decide.estimate import costs_of
from router.decide.opinions import SECOND_OPINION, Rules, with_lean

LONG, QUICK = "long", "quick"
RIGHT_SHARE = 0.65
"""Cautious: an opinion that is right in 60 of 100 must do no harm on real prompts (decisions/0021)."""
LOG_ODDS = math.log(RIGHT_SHARE / (1 - RIGHT_SHARE))
PROMPT_TOKENS, ANSWER_TOKENS = 320, 8
"""A question (900 characters of the person's words and the text around them) and its one-word answer."""


def why_never(decision: Decision) -> str:
    """Why a turn is never asked about; empty if it may be."""
    looks = decision.opinions.looks
    if decision.turn.kind is not TurnKind.ASK:
        return f"only the start of a turn is asked about, and this is a {decision.turn.kind}"
    if decision.decided_by != ESTIMATE:
        return "nothing was weighed: the tier is fixed"
    if decision.signals.features is None or (looks is not None and looks.points_back):
        return "the words alone do not say what to do"
    return ""


def value_of_asking(decision: Decision) -> float:
    """USD saved by one more opinion: for each answer, its chance times what changing the tier then saves."""
    weighing, p = decision.weighing, decision.score
    if weighing is None or weighing.fast is None or weighing.deep is None or weighing.redo is None:
        return 0.0
    is_fast, value = decision.tier is Tier.FAST, 0.0
    for if_long, if_quick in ((RIGHT_SHARE, 1 - RIGHT_SHARE), (1 - RIGHT_SHARE, RIGHT_SHARE)):
        chance = p * if_long + (1 - p) * if_quick
        fast, deep = costs_of(weighing.fast, weighing.deep, weighing.redo, p * if_long / chance, decision.economics)
        saved = fast - deep if is_fast else deep - fast
        if saved > 0:
            value += chance * saved
    return value


def cost_of_asking(status: TargetStatus, economics: Economics, max_wait_seconds: float) -> float:
    """Expected USD: the person's time until the answer, and tokens."""
    target, speed = status.target, status.speed
    seconds = status.wait_seconds + speed.ttft_seconds + PROMPT_TOKENS / speed.prefill_tokens_per_second
    seconds += ANSWER_TOKENS / speed.tokens_per_second
    cost = min(seconds, max_wait_seconds) * economics.usd_per_second
    if target.price is not None:
        cost += target.price.cost_of_turn(written_tokens=PROMPT_TOKENS, read_tokens=0, output_tokens=ANSWER_TOKENS)
    return cost


def decide_with(rules: Rules, decided: Decided, target: str, said: str) -> Decided:
    """Decide again after `long` or `quick`. Any other answer changes nothing."""
    if said not in (LONG, QUICK):
        return decided
    lean = Lean(LOG_ODDS if said == LONG else -LOG_ODDS, f"the second opinion of {target} says {said}")
    opinions = with_lean(decided.opinions, SECOND_OPINION, lean)
    decision = choose(rules, decided.view, decided.decision.signals, opinions)
    return foresee(rules, replace(decided, decision=decision, opinions=opinions))
