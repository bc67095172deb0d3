"""Deciding again: the first half of the road for every past turn, under a config of choice. Nothing is sent or remembered."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec
import orjson

from router.contract.decision import ESTIMATE, Decision, Estimate
from router.contract.economics import Economics
from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount, Turn
from router.contract.words import DEFAULT_DIALECT, Operation, Tier, TurnKind
from router.decide.choose import PERSONAL, decide
from router.decide.estimate import estimates_of, flip_of, weighing_of
from router.dialects.requests import read_request
from router.house import House
from router.lab.cases import Case, Kept
from router.lab.past import Size
from router.sense.tokens import estimate_prompt

_EMPTY = read_request(
    Arrival(
        "req_replay",
        DEFAULT_DIALECT,
        Operation.CREATE,
        {},
        orjson.dumps({"model": "auto", "messages": [{"role": "user", "content": "-"}]}),
    )
)
_SURE = 20.0
_BY_LENGTH = "window"
"""The one policy that a kept decision can be shown to again: it looks at the prompt's length alone."""


class NoCounter:
    """Counts nothing exactly: the text of a rebuilt request is filling, and only its length is true."""

    async def count(self, view: RequestView) -> TokenCount | None:
        """None: the estimate stands."""
        return None

    async def count_or_estimate(self, view: RequestView) -> TokenCount:
        """The estimate."""
        return estimate_prompt(view)

    def close(self) -> None:
        """Nothing was loaded."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A policy that says again what was said."""

    opinions: tuple[Opinion, ...]
    name: ClassVar[str] = "remembered"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """The same opinions."""
        return self.opinions


@dataclass(frozen=True, slots=True)
class Choice:
    """What a config makes of one turn. `evidence` is the sum of what policies said, without prior and personal offset."""

    tier: Tier
    score: float
    evidence: float
    threshold: float | None
    """The score at which the tier would change; None where no score could change it."""
    kind: TurnKind
    because: str
    estimates: dict[Tier, Estimate]
    prompt_tokens: int
    decided_by: str = ESTIMATE


def quiet(house: House) -> House:
    """The same house for a look back: it counts nothing and keeps nothing."""
    return House(house.plan, replace(house.state, counter=NoCounter()), house.clock)


async def choose_again(house: House, case: Case) -> Choice | None:
    """Decide a turn. None when nothing could serve it under this config."""
    try:
        if case.arrival is not None:
            decision = (await house.decide(case.arrival)).decision
        elif case.kept is not None:
            decision = _decide_kept(house, case, case.kept)
        else:
            return None
    except TandemError:
        return None
    return _as_choice(decision)


def _decide_kept(house: House, case: Case, kept: Kept) -> Decision:
    """The estimate alone, from what was kept. What insisted or ruled out then cannot be read again, so its tier stays."""
    opinions: Sequence[Opinion] = kept.opinions
    if kept.decided_by != ESTIMATE and case.was is not None:
        opinions = (*opinions, Insist("as it was", Rank.OPERATOR_RULE, tier=case.was))
    turn = Turn(kept.kind, case.session, case.client)
    return _decide_anew(house, house.plan.rules.economics, opinions, turn, kept.prompt_tokens)


def _decide_anew(house: House, economics: Economics, opinions: Sequence[Opinion], turn: Turn, tokens: int) -> Decision:
    policies = (Remembered(tuple(opinions)), *(policy for policy in house.plan.rules.policies if policy.name == _BY_LENGTH))
    signals = Signals(
        turn=turn,
        prompt=TokenCount(tokens, tokens, tokens, is_exact=True),
        alias=house.plan.models.resolve("auto"),
        statuses=house.state.live.statuses(house.plan.targets, house.clock()),
    )
    return decide(replace(house.plan.rules, policies=policies, economics=economics), _EMPTY, signals)


def _as_choice(decision: Decision) -> Choice:
    leans = [lean.log_odds for policy, lean in decision.opinions.leans if policy != PERSONAL]
    weighing = weighing_of(decision)
    return Choice(
        tier=decision.tier,
        score=decision.score,
        evidence=math.fsum(leans),
        threshold=flip_of(weighing, decision.score, decision.economics).score if decision.decided_by == ESTIMATE else None,
        kind=decision.turn.kind,
        because=decision.because,
        estimates=estimates_of(weighing, decision.score, decision.economics),
        prompt_tokens=decision.prompt_tokens,
        decided_by=decision.decided_by,
    )


def measure(house: House, choice: Choice, size: Size | None) -> Mapping[Tier, Estimate]:
    """What each tier would have taken for a turn that turned out to be of this size, by one config's speeds and prices.

    A choice must not be judged by the belief that it was made on: whoever takes the least of their own estimates never loses.
    Nothing where the size is not known, or where only one tier could have served.
    """
    if size is None:
        return {}
    economics = msgspec.structs.replace(house.plan.rules.economics, personal_log_odds=0.0)
    known = Lean(-economics.prior if size is Size.MIDDLE else _SURE if size is Size.LONG else -_SURE, "as it turned out")
    try:
        decision = _decide_anew(house, economics, (known,), Turn(choice.kind, "", ""), choice.prompt_tokens)
    except TandemError:
        return {}
    estimates = estimates_of(weighing_of(decision), decision.score, decision.economics)
    return estimates if len(estimates) == len(Tier) else {}
