"""Money as it is added up: whole numbers of a hundred-millionth of a dollar, to which every cost in the ledger is rounded.

Sums of whole numbers are exact, in any order: what is held, settled and given back a million times leaves nothing over, and the
ledger's sum is the same as the one that is counted while requests run. Sums of floats would drift apart.
"""

import math

UNITS_PER_USD = 100_000_000
"""As many as there are in a dollar. A price of 0.10 USD per million tokens is ten of them for a token."""


def as_units(usd: float) -> int:
    """A cost or a budget, to the nearest unit."""
    return round(usd * UNITS_PER_USD)


def as_units_above(usd: float) -> int:
    """What is enough for a cost that was only estimated."""
    return math.ceil(usd * UNITS_PER_USD)


def as_usd(units: int) -> float:
    return units / UNITS_PER_USD


def show_usd(units: int) -> str:
    """An amount for a person: in cents, or with two digits where it is less than ten."""
    usd = abs(units) / UNITS_PER_USD
    is_cents = usd >= 0.1 or units % (UNITS_PER_USD // 100) == 0
    digits = 2 if is_cents else min(8, 1 - math.floor(math.log10(usd)))
    return f"{units / UNITS_PER_USD:.{digits}f} USD"
