"""Keeps a caller's credential to its vendor. In use where a target takes callers' keys; no config lists it."""

from typing import ClassVar

from router.contract.credential import say_mismatch
from router.contract.opinions import Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals


class CredentialPolicy:
    """Rules out targets that take callers' keys, but not the one of this request."""

    name: ClassVar[str] = "credential"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """A request without any credential is not ruled out: the attempt tells its caller what to send."""
        found = []
        for name, status in signals.statuses.items():
            target = status.target
            if target.takes_callers_key and (why := say_mismatch(target, request.headers, request.dialect)):
                found.append(RuleOut(name, why, lasting=True))
        return tuple(found)
