"""What happened to a request → its ledger entry."""

import time

from router.contract.entry import Entry
from router.contract.exchange import Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, FirstToken, Read, Settled
from router.dialects.headers import because_served

_MAX_TEXT_BYTES = 1 << 20


def write_entry(exchange: Exchange, settled: Settled) -> Entry:
    """One entry, from the journal: whatever a request never came to is missing there, and here."""
    arrival, began, ended = exchange.arrival, exchange.began, settled.at
    read, decided = exchange.last(Read), exchange.last(Decided)
    view, decision = read.view if read else None, decided.decision if decided else None
    opened, last, first_token = exchange.last(AttemptOpened), exchange.last(AttemptEnded), exchange.last(FirstToken)
    attempts = tuple([fact.attempt for fact in exchange.journal if isinstance(fact, AttemptEnded)])
    first = opened if len(attempts) < 2 else exchange.first(AttemptOpened)
    target = opened.target if opened else None
    usage = last.usage if last else None
    return Entry(
        id=arrival.id,
        at=time.time() - (ended - began),
        caller=exchange.caller,
        dialect=arrival.dialect,
        model=view.model if view else "",
        is_streaming=view.is_streaming if view else False,
        outcome=settled.ending.outcome,
        status=settled.ending.status,
        error=settled.ending.error.code if settled.ending.error else None,
        decision=decision,
        because=_because(decided, opened),
        attempts=attempts,
        tier=target.tier if target else decision.tier if decision else None,
        target=target.name if target else None,
        overhead_ms=round(((first.at if first else ended) - began) * 1000, 3),
        ttft_ms=round((first_token.at - began) * 1000, 2) if first_token else None,
        duration_ms=round((ended - began) * 1000, 2),
        tokens_per_second=round(last.tokens_per_second, 1) if last and last.tokens_per_second else None,
        usage=usage,
        cost_usd=target.price.cost(usage) if usage and target and target.price else None,
        dropped=opened.dropped if opened else (),
        prompt_text=_text(view.raw) if settled.answer is not None and view else None,
        answer_text=_text(settled.answer) if settled.answer else None,
    )


def _because(decided: Decided | None, opened: AttemptOpened | None) -> str | None:
    if decided is None:
        return None
    return because_served(decided.decision, opened.target, opened.failed) if opened else decided.decision.because


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
