"""Keeps a caller's credential to its vendor, and has a plan count for its own sessions.

In use where a target takes callers' keys; no config lists it.
"""

from typing import ClassVar

from router.contract.credential import credential_for, say_mismatch
from router.contract.opinions import Insist, Opinion, PolicyConfig, Rank, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Operation, Tier


class CredentialPolicy:
    """Rules out targets that take callers' keys, but not the one of this request."""

    name: ClassVar[str] = "credential"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """A request without any credential is not ruled out: the attempt tells its caller what to send."""
        found: list[Opinion] = []
        plans = []
        for name, status in signals.statuses.items():
            target = status.target
            if target.takes_callers_key and (why := say_mismatch(target, request.headers, request.dialect)):
                found.append(RuleOut(name, why, lasting=True))
            elif target.is_plan and credential_for(target, request.headers, request.dialect) is not None:
                plans.append(target)
        if plans and request.operation is Operation.COUNT_TOKENS:
            name = next((target.name for target in plans if target.tier is Tier.DEEP), plans[0].name)
            found.append(Insist(f"{name} counts for its own plan", Rank.RUNNING_TURN, target=name, yields=True))
        return tuple(found)
