"""What it cost to change the tier in the middle of a session. Pure: rows in, figures out. Both are estimates."""

from collections.abc import Sequence
from statistics import median

from router.contract.entry import Line
from router.contract.past import PageRow
from router.lab.regret import PriceOf, price_hop
from router.lab.turns import Call


def cost_of_hop(rows: Sequence[PageRow], place: int, price_of: PriceOf) -> float | None:
    """USD for reading again what the other tier had in its cache, as the regret meter counts it.

    None where a price or a count of tokens is not known.
    """
    line, before = rows[place].line, _call_before(rows, place)
    if before is None or before.line.input_tokens is None or line.input_tokens is None:
        return None
    usd = price_hop(_as_call(before.line), _as_call(line), price_of)
    return round(usd, 8) if usd is not None else None


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


def _as_call(line: Line) -> Call:
    return Call(
        line.id,
        None,
        line.duration_ms / 1_000,
        line.at,
        target=line.target or "",
        input_tokens=line.input_tokens or 0,
        cached_tokens=line.cached_tokens or 0,
        output_tokens=line.output_tokens or 0,
    )
