"""What became of a request → its ledger entry."""

import time
from collections.abc import Mapping

from router.contract.decision import Decision
from router.contract.entry import Dispatched, Entry, Usage
from router.contract.request import RequestView
from router.contract.target import Price, Target
from router.contract.words import Dialect
from router.dialects.headers import because_served

_MAX_TEXT_BYTES = 1 << 20
MILLION = 1_000_000.0


def write_entry(
    *,
    request_id: str,
    caller: str,
    dialect: Dialect,
    view: RequestView | None,
    decision: Decision | None,
    record: Dispatched,
    began: float,
    decided: float,
    ended: float,
    targets: Mapping[str, Target],
    keeps_text: bool,
) -> Entry:
    """One entry, from what is known. `view` is None for a body that could not be read."""
    target = targets.get(record.target) if record.target else None
    first = record.first_token_at
    return Entry(
        id=request_id,
        at=time.time() - (ended - began),
        caller=caller,
        dialect=dialect,
        model=view.model if view else "",
        is_streaming=view.is_streaming if view else False,
        outcome=record.outcome,
        status=record.status,
        error=record.error.code if record.error else None,
        decision=decision,
        because=_because(decision, target, record),
        attempts=tuple(record.attempts),
        tier=target.tier if target else decision.tier if decision else None,
        target=record.target,
        overhead_ms=round((decided - began) * 1000, 3),
        ttft_ms=round((first - began) * 1000, 2) if first is not None else None,
        duration_ms=round((ended - began) * 1000, 2),
        tokens_per_second=round(record.tokens_per_second, 1) if record.tokens_per_second else None,
        usage=record.usage,
        cost_usd=_cost(record.usage, target.price if target else None),
        dropped=record.dropped,
        prompt_text=_text(view.raw) if keeps_text and view else None,
        answer_text=_text(b"".join(record.answer)) if keeps_text and record.answer else None,
    )


def _because(decision: Decision | None, target: Target | None, record: Dispatched) -> str | None:
    if decision is None:
        return None
    return decision.because if target is None else because_served(decision, target, record.failed)


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")


def _cost(usage: Usage | None, price: Price | None) -> float | None:
    """USD, or None where tokens or price are not known: never 0 for want of knowing."""
    if usage is None or price is None:
        return None
    cached = price.cached_input if price.cached_input is not None else price.input
    write = price.cache_write if price.cache_write is not None else price.input
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    total = (
        fresh * price.input
        + usage.cached_tokens * cached
        + usage.cache_write_tokens * write
        + usage.output_tokens * price.output
    )
    return round(total / MILLION, 8)
