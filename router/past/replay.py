"""Decides past turns again under any config. Nothing is sent or remembered."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import orjson

from router.contract.decision import ESTIMATE, Decision, Estimate
from router.contract.economics import Economics, TurnSize
from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.opinions import Insist, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount, Turn
from router.contract.words import DEFAULT_DIALECT, Operation, Tier, TurnKind
from router.decide.choose import decide
from router.decide.estimate import estimates_of, weighing_of
from router.decide.yardstick import TOOL_SECONDS, Took
from router.dialects.requests import read_request
from router.house import House
from router.past.cases import Case, Kept
from router.past.history import Size
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
CHANCES = {Size.QUICK: 0.0, Size.MIDDLE: 0.5, Size.LONG: 1.0}
"""A turn's size as a chance for the yardstick."""
_MAX_REST_SECONDS = 60.0
"""Per call; longer pauses are a person away."""
_BY_LENGTH = "window"
"""The one policy that can judge a kept decision again: it needs only the prompt's length."""


class NoCounter:
    """Never counts: a rebuilt request is filler of the right length."""

    async def count(
        self, view: RequestView, within_seconds: float = math.inf, learn: Callable[[int], None] | None = None
    ) -> TokenCount | None:
        """None: the estimate is used."""
        return None

    def prepare(self) -> None:
        """No-op."""

    async def count_or_estimate(self, view: RequestView) -> TokenCount:
        return estimate_prompt(view)

    def close(self) -> None:
        """No-op."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A policy that repeats a kept opinion."""

    opinions: tuple[Opinion, ...]
    name: ClassVar[str] = "remembered"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        return self.opinions


@dataclass(frozen=True, slots=True)
class Choice:
    """A config's decision on one turn."""

    tier: Tier
    score: float
    kind: TurnKind
    because: str
    estimates: dict[Tier, Estimate]
    prompt_tokens: int
    decided_by: str = ESTIMATE


def quiet(house: House) -> House:
    """A copy of the house that counts and keeps nothing."""
    return House(house.plan, msgspec.structs.replace(house.state, counter=NoCounter()), house.clock)


async def choose_again(house: House, case: Case) -> Choice | None:
    """None if nothing could serve it under this config."""
    decision = await decide_again(house, case)
    return _as_choice(decision) if decision is not None else None


async def decide_again(house: House, case: Case) -> Decision | None:
    try:
        if case.arrival is not None:
            return (await house.decide(case.arrival)).decision
        return _decide_kept(house, case, case.kept) if case.kept is not None else None
    except TandemError:
        return None


def _decide_kept(house: House, case: Case, kept: Kept) -> Decision:
    """Estimate from what was kept. A tier that was not decided by the estimate stays."""
    opinions: Sequence[Opinion] = kept.opinions
    if kept.decided_by != ESTIMATE and case.was is not None:
        opinions = (*opinions, Insist("as it was", Rank.OPERATOR_RULE, tier=case.was))
    turn = Turn(kept.kind, case.session, case.client)
    return _decide_again(house, house.plan.rules.economics, opinions, turn, kept.prompt_tokens)


def _decide_again(house: House, economics: Economics, opinions: Sequence[Opinion], turn: Turn, tokens: int) -> Decision:
    rules = house.plan.rules
    policies = (Remembered(tuple(opinions)), *(policy for policy in rules.policies if policy.name == _BY_LENGTH))
    signals = Signals(
        turn=turn,
        prompt=TokenCount(tokens, tokens, tokens, is_exact=True),
        alias=house.plan.models.resolve("auto"),
        statuses=house.state.live.statuses(house.plan.targets, house.clock()),
    )
    return decide(msgspec.structs.replace(rules, policies=policies, economics=economics), _EMPTY, signals)


def _as_choice(decision: Decision) -> Choice:
    weighing = weighing_of(decision)
    return Choice(
        tier=decision.tier,
        score=decision.score,
        kind=decision.turn.kind,
        because=decision.because,
        estimates=estimates_of(weighing, decision.score, decision.economics),
        prompt_tokens=decision.prompt_tokens,
        decided_by=decision.decided_by,
    )


def measure(house: House, choice: Choice | Decision, case: Case) -> Mapping[Tier, Took]:
    """What a turn's first answer would take on each tier, by its own calls and tokens and one config's speeds.

    A choice judged by its own estimates never loses. Empty if the size is unknown, or only one tier could serve.
    """
    if case.size is None:
        return {}
    economics = house.plan.rules.economics
    kind = choice.turn.kind if isinstance(choice, Decision) else choice.kind
    size = _size_of(case, economics)
    economics = msgspec.structs.replace(economics, quick=size, long=size)
    try:
        decision = _decide_again(house, economics, (), Turn(kind, "", ""), choice.prompt_tokens)
    except TandemError:
        return {}
    weighing = weighing_of(decision)
    fast, deep = weighing.fast, weighing.deep
    if fast is None or deep is None:
        return {}
    expected = {
        tier: Took(found.seconds, found.usd if found.has_price else None)
        for tier, found in ((Tier.FAST, fast), (Tier.DEEP, deep))
    }
    return _scale_to_record(case, expected, size.calls)


def _size_of(case: Case, economics: Economics) -> TurnSize:
    work = case.work
    if work is not None and work.output_tokens > 0:
        return TurnSize(work.calls, work.output_tokens)
    p = CHANCES[case.size or Size.MIDDLE]
    quick, long = economics.quick, economics.long
    return TurnSize(
        quick.calls + (long.calls - quick.calls) * p, quick.output_tokens + (long.output_tokens - quick.output_tokens) * p
    )


def _scale_to_record(case: Case, expected: Mapping[Tier, Took], calls: float) -> Mapping[Tier, Took]:
    """Scale to the record: the tier that served took what the ledger measured.

    A log's time beyond the model's (tools, approvals) counts equally for both tiers. Logs name no tier: their time counts as
    deep's.
    """
    work, own = case.work, expected[case.was or Tier.DEEP]
    if case.was is not None and work is not None and work.seconds:
        longer = work.seconds / own.seconds if own.seconds else 1.0
        dearer = work.usd / own.usd if work.usd is not None and own.usd else 1.0
        return {
            tier: Took(took.seconds * longer, None if took.usd is None else took.usd * dearer)
            for tier, took in expected.items()
        }
    rest = TOOL_SECONDS * calls
    if work is not None and work.seconds is not None:
        rest = min(max(0.0, work.seconds - own.seconds), _MAX_REST_SECONDS * calls)
    return {tier: took._replace(seconds=took.seconds + rest) for tier, took in expected.items()}
