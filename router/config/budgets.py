"""What the budgets of callers need of a config: a price for every target that may serve them, and a ledger that keeps count."""

from collections.abc import Mapping, Sequence

from router.config.faults import ConfigError, Fault
from router.config.models import LedgerSettings
from router.config.targets import TargetPlan
from router.contract.keys import KeyRing
from router.contract.rights import Rights

_DAYS_OF_A_MONTH = 31
_SHOWN = 3


def check_budgets(
    keys: KeyRing | None,
    targets: Sequence[TargetPlan],
    paths: Mapping[str, str],
    ledger: LedgerSettings,
    faults: list[Fault],
) -> None:
    """Check that what callers with a budget spend can be known, and remembered. `paths` is where each target is, by name."""
    owners = _owners(keys)
    if not owners:
        return
    for plan in targets:
        target = plan.target
        served = [name for name, own in owners.items() if target.tier in own.tiers]
        if target.price is None and served:
            problem = f'target "{target.name}" has no price, which {_name(served)} need'
            hint = f"set its price, in USD per million tokens, or leave {target.tier} out of their tiers in keys.yaml"
            faults.append(Fault(f"{paths[target.name]}.price", problem, hint))
    if not ledger.path:
        problem = f"{_name(list(owners))} need a ledger: without one, a restart would forget what was spent"
        faults.append(Fault("ledger.path", problem, "set a path, such as tandem.db"))


def check_recorded(keys: KeyRing | None, source: str, *, with_ledger: bool) -> None:
    """The same for a router that is to serve without the ledger of its config. Raises `ConfigError`."""
    owners = list(_owners(keys))
    if owners and not with_ledger:
        problem = f"{_name(owners)} need one: without a ledger, a restart would forget what was spent"
        raise ConfigError(source, [Fault("ledger", problem, "start without --no-ledger, or remove the budgets")])


def warn_of_short_ledger(keys: KeyRing | None, ledger: LedgerSettings) -> list[str]:
    """A ledger that forgets a month before it is over forgets what was spent in it."""
    owners = [name for name, own in _owners(keys).items() if own.monthly_usd is not None]
    if not owners or ledger.keep_days >= _DAYS_OF_A_MONTH:
        return []
    return [
        f"ledger.keep_days: {ledger.keep_days} days are less than a month, so a restart late in a month forgets a part of what"
        f" was spent in it; {_name(owners)} need {_DAYS_OF_A_MONTH}"
    ]


def _owners(keys: KeyRing | None) -> dict[str, Rights]:
    """The callers that have a budget."""
    rights = keys.rights if keys is not None else {}
    return {name: own for name, own in rights.items() if own.has_budget}


def _name(callers: list[str]) -> str:
    more = f" and {len(callers) - _SHOWN} more" if len(callers) > _SHOWN else ""
    return f"the budgets of {', '.join(callers[:_SHOWN])}{more}"
