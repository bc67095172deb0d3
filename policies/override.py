"""Wishes by header, first line, session scope or model name. A name pattern only leans."""

from collections.abc import Iterator
from typing import ClassVar

from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank, RuleOut
from router.contract.request import Overrides, RequestView
from router.contract.signals import Signals
from router.contract.words import Tier

_NOTHING = Overrides()
_PATTERN_LOG_ODDS = 3.0


class OverridePolicy:
    """Obeys overrides, the strongest first."""

    name: ClassVar[str] = "override"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, _: PolicyConfig) -> None: ...

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        overrides, turn, alias = request.overrides, signals.turn, signals.alias
        if overrides == _NOTHING and turn.line is None and turn.wish is None and alias.tier is None and alias.target is None:
            return ()
        opinions: list[Opinion] = []
        asked = turn.line or turn.wish
        if overrides.tier is not None:
            opinions.append(Insist(f"x-tandem-tier asks for {overrides.tier}", Rank.HEADER, tier=overrides.tier))
        elif overrides.clears:
            pass
        elif turn.line is not None:
            if (tier := turn.line.tier) is not None:
                opinions.append(Insist(f"the first line asks for {tier}", Rank.IN_BAND_LINE, tier=tier))
        elif turn.wish is not None and (tier := turn.wish.tier) is not None:
            opinions.append(Insist(f"this session is set to {tier}", Rank.SESSION_SCOPE, tier=tier))
        if not overrides.clears and (asked is None or asked.tier is not None):
            opinions.extend(self._judge_name(signals))
        if overrides.max_wait_seconds is not None:
            opinions.extend(_bound_waits(overrides.max_wait_seconds, signals))
        return tuple(opinions)

    def _judge_name(self, signals: Signals) -> tuple[Opinion, ...]:
        alias, turn = signals.alias, signals.turn
        if alias.is_pattern or (alias.tier is None and alias.target is None):
            tier = self._leaning_tier(signals)
            if tier is None:
                return ()
            sign = 1.0 if tier is Tier.DEEP else -1.0
            return (Lean(sign * _PATTERN_LOG_ODDS, f'the model name "{alias.name}" matches a pattern for {tier}'),)
        if turn.line is not None or turn.wish is not None:  # newer than the name
            return ()
        if alias.target is not None:
            meaning = "is a target" if alias.name == alias.target else f"means the target {alias.target}"
            return (Insist(f'the model name "{alias.name}" {meaning}', Rank.MODEL_NAME, target=alias.target),)
        return (Insist(f'the model name "{alias.name}" asks for {alias.tier}', Rank.MODEL_NAME, tier=alias.tier),)

    @staticmethod
    def _leaning_tier(signals: Signals) -> Tier | None:
        alias = signals.alias
        if alias.target is not None and alias.target in signals.statuses:
            return signals.statuses[alias.target].target.tier
        return alias.tier


def _bound_waits(max_seconds: float, signals: Signals) -> Iterator[RuleOut]:
    """A rest is our own choice, and never refuses a request."""
    for name, status in signals.statuses.items():
        if status.wait_seconds <= max_seconds:
            continue
        if status.is_resting:
            because = f"{status.wait_because}, and x-tandem-max-wait is {max_seconds:g} s"
            yield RuleOut(name, because, lasting=False, yields=True)
        else:
            because = f"its wait is {status.wait_seconds:.1f} s, and x-tandem-max-wait is {max_seconds:g} s"
            yield RuleOut(name, because, lasting=False, wait_seconds=status.wait_seconds - max_seconds)
