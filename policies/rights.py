"""Keeps a key to its tiers. In use where callers need keys; no config lists it."""

from collections.abc import Mapping
from typing import ClassVar

from router.contract.opinions import Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.rights import BOTH_TIERS, Rights, rights_in
from router.contract.signals import Signals


class RightsPolicy:
    """Rules out the targets of tiers that a caller may not use."""

    name: ClassVar[str] = "rights"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, rights: Mapping[str, Rights]) -> None:
        self._rights = rights

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Lasting: no wait or wish changes what a key is for."""
        tiers = rights_in(self._rights, request.caller.name).tiers
        if tiers == BOTH_TIERS:
            return ()
        because = f"this key is for {' and '.join(sorted(tiers)) or 'no tier'} only"
        others = (name for name, status in signals.statuses.items() if status.target.tier not in tiers)
        return tuple(RuleOut(name, because, lasting=True, is_right=True) for name in others)
