"""Which budgets are nearly or wholly spent, for the people who are told of it. Read when somebody asks."""

from router.callers.accounts import Limited
from router.callers.budgets import Budgets
from router.contract.notices import Notice, Trouble
from router.contract.spending import show_usd


def find_troubles(budgets: Budgets) -> list[Notice]:
    """One notice for each caller that has spent nearly all of a budget, or all of it."""
    found = (_find_trouble(budgets, name, limits) for name, limits in budgets.known_limits())
    return [notice for notice in found if notice is not None]


def _find_trouble(budgets: Budgets, name: str, limits: list[Limited]) -> Notice | None:
    """Of a daily and a monthly budget, the one that keeps the caller waiting longer."""
    spent = [limited for limited in limits if _is_spent(limited)]
    near = [limited for limited in limits if limited.share >= budgets.warn_at]
    if not spent and not near:
        return None
    purse, limit = max(spent or near, key=lambda limited: limited.purse.span.ends)
    whole, hint = f"the {purse.period.adjective} budget of {show_usd(limit)}", "set a higher budget in the key file"
    if spent:
        since = purse.refused_since or purse.near_since or purse.span.begins
        text = f"{name}: {whole} is used up until {budgets.say_end(purse)}"
        return Notice(Trouble.BUDGET_SPENT, name, since, text, hint)
    text = f"{name}: {purse.spent / limit:.0%} of {whole} is spent"
    return Notice(Trouble.BUDGET_NEAR, name, purse.near_since or purse.span.begins, text, hint)


def _is_spent(limited: Limited) -> bool:
    """Whether nothing is left, or a request was refused for want of room and the budget was not raised since."""
    purse, limit = limited
    return limited.share >= 1 or (purse.refused_since is not None and purse.refused_with >= limit)
