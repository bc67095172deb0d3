"""What it cost to change the tier in the middle of a session. Pure: rows in, figures out. Both are estimates."""

from collections.abc import Mapping, Sequence
from statistics import median

from router.contract.past import PageRow
from router.contract.target import Target

_MILLION = 1_000_000.0


def cost_of_hop(rows: Sequence[PageRow], place: int, targets: Mapping[str, Target]) -> float | None:
    """USD for reading again what the other tier had in its cache: the prompt of the call before, less what is cached here.

    By the prices of today. None where a price or a count of tokens is not known.
    """
    line, before = rows[place].line, _call_before(rows, place)
    target = targets.get(line.target or "")
    if target is None or target.price is None or before is None or line.input_tokens is None:
        return None
    known = before.line.input_tokens
    if known is None:
        return None
    cold = max(0, min(known, line.input_tokens) - (line.cached_tokens or 0))
    price = target.price.at(line.input_tokens)
    return round(cold * max(0.0, price.write - price.read) / _MILLION, 8)


def wait_of_hop(rows: Sequence[PageRow], place: int) -> float | None:
    """How much longer the first token took than it usually does on that target in this session. None if that is unknown."""
    line = rows[place].line
    usual = [
        row.line.ttft_ms for row in rows if row.line.target == line.target and row.hop is None and row.line.ttft_ms is not None
    ]
    if line.ttft_ms is None or not usual:
        return None
    return round(max(0.0, line.ttft_ms - median(usual)) / 1_000, 3)


def _call_before(rows: Sequence[PageRow], place: int) -> PageRow | None:
    """The session's call that a person's turn was at before this one."""
    before = rows[place].tier_before
    return next((row for row in reversed(rows[:place]) if row.line.tier == before), None)
