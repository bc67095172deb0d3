"""Notices of targets that are out, computed on demand so that served requests pay nothing."""

from collections.abc import Mapping

from router.contract.notices import ACCOUNT_FAULTS, Notice, Trouble
from router.contract.target import Target
from router.contract.words import AccountFault
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.live.target import LiveTarget

_LONG_SECONDS = 60.0
"""A shorter requested pause means busy, not out."""
_DOCTOR = "tandem check --live"


def find_troubles(live: LiveStatistics, targets: Mapping[str, Target], now: float, time_of_day: float) -> list[Notice]:
    out = {name: known for name, target in targets.items() if _is_out(known := live.of(target), now)}
    notices = []
    for name, known in out.items():
        tier = targets[name].tier
        is_alone = all(other in out for other, target in targets.items() if target.tier is tier)
        kind, text, hint = _describe(known, now)
        text += f"; no {tier} target is left" if is_alone else ""
        notices.append(Notice(kind, name, time_of_day - (now - known.circuit.failing_since), f"{name}: {text}", hint))
    return [*notices, *live.limits.plans.find_troubles(targets)]


def _is_out(known: LiveTarget, now: float) -> bool:
    return known.circuit.is_open or _is_closed_for_long(known, now)


def _is_closed_for_long(known: LiveTarget, now: float) -> bool:
    circuit = known.circuit
    return circuit.closed_until > now and circuit.failures > 0 and circuit.closed_until - circuit.failing_since >= _LONG_SECONDS


def _describe(known: LiveTarget, now: float) -> tuple[Trouble, str, str]:
    if known.circuit.fault is not None:
        kind = Trouble.KEY_REFUSED if known.circuit.fault is AccountFault.KEY else Trouble.TARGET_OUT
        return kind, *ACCOUNT_FAULTS[known.circuit.fault]
    if _is_closed_for_long(known, now):
        minutes = max(1, round((known.circuit.closed_until - now) / 60))
        return Trouble.TARGET_OUT, f"asked to be left alone, for {minutes} more min", _DOCTOR
    failures = known.circuit.failures
    return Trouble.TARGET_OUT, f"fails ({known.circuit.failed_with}), {failures} times in a row", _DOCTOR
