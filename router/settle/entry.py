"""What happened to a request → its ledger entry."""

from typing import Any

import msgspec
from msgspec.structs import replace

from router.contract.entry import Attempt, Entry, Line
from router.contract.exchange import Exchange
from router.contract.facts import AnsweredHere, AttemptEnded, AttemptOpened, Decided, Ending, FirstToken, Read, Settled
from router.contract.words import Outcome
from router.dialects.headers import because_served
from router.settle.kept import keep_decision

_MAX_TEXT_BYTES = 1 << 20

_encode = msgspec.json.Encoder().encode


class _Absent:
    """What a request never came to: whatever is asked of it is None."""

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> None:
        return None


_ABSENT: Any = _Absent()


def write_entry(exchange: Exchange, settled: Settled, at: float) -> Entry:
    """One entry, from the journal: whatever a request never came to is missing there, and here. It ended `at` that time."""
    last, arrival, began, ended, ending = exchange.last, exchange.arrival, exchange.began, settled.at, settled.ending
    decided, opened, answered = last(Decided) or _ABSENT, last(AttemptOpened) or _ABSENT, last(AttemptEnded) or _ABSENT
    view, first_token = decided.view or (last(Read) or _ABSENT).view or _ABSENT, last(FirstToken)
    decision, target, usage = decided.decision or _ABSENT, opened.target or _ABSENT, answered.usage or _ABSENT
    turn = decision.turn or (last(AnsweredHere) or _ABSENT).turn or _ABSENT
    tier, attempts, first = (target or decision).tier, [answered.attempt], opened
    if list(map(type, exchange.journal)).count(AttemptEnded) != 1:  # mostly there is one attempt, and it is at hand
        attempts, first = _all_attempts(exchange), exchange.first(AttemptOpened)
    because = because_served(decision, target, opened.failed) if opened.failed else decision.because
    kind, price, speed, error = turn.kind, target.price, answered.tokens_per_second, ending.error
    # `_value_` is a word as plain text: SQLite binds that at once, and looks for a way to adapt any other kind of str.
    line = Line(
        arrival.id,
        at - (ended - began),
        exchange.caller.name,
        turn.session,
        kind._value_ if kind else None,
        turn.client,
        arrival.dialect._value_,
        view.model or "",
        view.is_streaming or False,
        ending.outcome._value_,
        ending.status,
        error.code if error else None,
        tier._value_ if tier else None,
        target.name,
        because,
        decision.score,
        round(((first.at if first else ended) - began) * 1000, 3),
        round((first_token.at - began) * 1000, 2) if first_token else None,
        round((ended - began) * 1000, 2),
        round(speed, 1) if speed else None,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.is_estimated,
        price.cost(usage) if price and usage else _cost_without_usage(ending, opened),
        len(attempts),
    )
    answer = settled.answer
    kept = keep_decision(decision, because, opened.dropped or (), keeps_text=answer is not None) if decision else None
    entry = Entry(line, kept, _encode(attempts).decode(), None, None, turn.person_text)
    if answer is None:
        return entry
    return replace(entry, prompt_text=_text(view.raw) if view else None, answer_text=_text(answer) if answer else None)


def _cost_without_usage(ending: Ending, opened: AttemptOpened) -> float | None:
    """Nothing, where the router itself answered and no target was called; else it is not known."""
    return 0.0 if ending.outcome is Outcome.SERVED and not opened else None


def _all_attempts(exchange: Exchange) -> list[Attempt]:
    return [fact.attempt for fact in exchange.journal if isinstance(fact, AttemptEnded)]


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
