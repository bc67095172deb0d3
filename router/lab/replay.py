"""Deciding again: the first half of the road for every past turn, under a config of choice. Nothing is sent or remembered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import orjson

from router.contract.decision import Decision, Estimate
from router.contract.errors import TandemError
from router.contract.opinions import Insist, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount, Turn
from router.contract.words import Dialect, Operation, Tier, TurnKind
from router.decide.choose import ESTIMATE, PERSONAL, decide
from router.dialects.requests import Arrival, read_request
from router.house import House
from router.lab.cases import Case, Kept

_EMPTY = read_request(
    Arrival(
        "req_replay",
        Dialect.CHAT,
        Operation.CREATE,
        {},
        orjson.dumps({"model": "auto", "messages": [{"role": "user", "content": "-"}]}),
    )
)
_BY_LENGTH = "window"
"""The one policy that a kept decision can be shown to again: it looks at the prompt's length alone."""


class NoCounter:
    """Counts nothing exactly: the text of a rebuilt request is filling, and only its length is true."""

    async def count(self, view: RequestView) -> TokenCount | None:
        """None: the estimate stands."""
        return None


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


def quiet(house: House) -> House:
    """The same house for a look back: it counts nothing and keeps nothing."""
    return replace(house, counter=NoCounter())


async def choose_again(house: House, case: Case) -> Choice | None:
    """Decide a turn. None when nothing could serve it under this config."""
    try:
        if case.arrival is not None:
            _, decision = await house.decide(case.arrival)
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
    policies = (Remembered(tuple(opinions)), *(policy for policy in house.rules.policies if policy.name == _BY_LENGTH))
    signals = Signals(
        turn=Turn(kept.kind, case.session, case.client),
        prompt=TokenCount(kept.prompt_tokens, kept.prompt_tokens, kept.prompt_tokens, is_exact=True),
        alias=house.models.resolve("auto"),
        standings=house.live.standings(house.clock()),
    )
    return decide(replace(house.rules, policies=policies), _EMPTY, signals)


def _as_choice(decision: Decision) -> Choice:
    leans = [item.log_odds for item in decision.evidence if item.log_odds is not None and item.policy != PERSONAL]
    return Choice(
        tier=decision.tier,
        score=decision.score,
        evidence=math.fsum(leans),
        threshold=decision.flip.score if decision.decided_by == ESTIMATE else None,
        kind=decision.turn.kind,
        because=decision.because,
        estimates=dict(decision.estimates),
    )
