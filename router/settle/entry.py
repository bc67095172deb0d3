"""What happened to a request → its ledger entry."""

from typing import Any

import msgspec
from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.entry import Attempt, Entry, Line
from router.contract.exchange import Exchange
from router.contract.facts import (
    AnsweredHere,
    AttemptEnded,
    AttemptOpened,
    Decided,
    Dequeued,
    Ending,
    FirstToken,
    PassedOn,
    Queued,
    Read,
    Replayed,
    Settled,
)
from router.contract.features import pack_places
from router.contract.words import Outcome, TurnKind
from router.dialects.headers import because_served
from router.settle.kept import keep_decision

_MAX_TEXT_BYTES = 1 << 20
_BEGINS = (TurnKind.ASK, TurnKind.FOLLOW_UP)
"""What a person types, at the beginning of a turn."""

_encode = msgspec.json.Encoder().encode


class _Absent:
    """What a request never came to: whatever is asked of it is None."""

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> None:
        return None


_ABSENT: Any = _Absent()
_NO_WAITS: tuple[tuple[str, float], ...] = ()


def write_entry(exchange: Exchange, settled: Settled, at: float) -> Entry:
    """One entry, from the journal: whatever a request never came to is missing there, and here. It ended `at` that time."""
    last, arrival, began, ended, ending = exchange.last, exchange.arrival, exchange.began, settled.at, settled.ending
    decided, opened, answered = last(Decided) or _ABSENT, last(AttemptOpened) or _ABSENT, last(AttemptEnded) or _ABSENT
    view, first_token = decided.view or (last(Read) or _ABSENT).view or _ABSENT, last(FirstToken)
    decision, target, usage = decided.decision or _ABSENT, opened.target or _ABSENT, answered.usage or _ABSENT
    turn = decision.turn or (last(AnsweredHere) or _ABSENT).turn or _ABSENT
    tier, only, first_at, waits = (target or decision).tier, answered.attempt, opened.at, _NO_WAITS
    kinds = list(map(type, exchange.journal))
    # Mostly there is one attempt, and it is at hand.
    if kinds.count(AttemptEnded) == 1 and Queued not in kinds and not decided.asked_at:
        attempts, cost = [only], only.cost_usd
    else:
        attempts, first_at, waits = _all_attempts(exchange), exchange.first_call_at(), _all_waits(exchange)
        cost = _cost_of(attempts, ending)
    because = because_served(decision, target, opened.failed) if opened.failed else decision.because
    if because is None and (told := last(Replayed) or last(PassedOn)) is not None:
        because = told.because
    kind, speed, error = turn.kind, answered.tokens_per_second, ending.error
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
        round(((first_at or ended) - began) * 1000, 3),
        round((first_token.at - began) * 1000, 2) if first_token else None,
        round((ended - began) * 1000, 2),
        round(speed, 1) if speed else None,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.is_estimated,
        cost,
        len(attempts),
    )
    answer = settled.answer
    kept = keep_decision(decision, because, opened.dropped or (), waits, keeps_text=answer is not None) if decision else None
    places = _places_of(decision) if kind in _BEGINS else None
    entry = Entry(line, kept, _encode(attempts).decode(), None, None, turn.person_text, places)
    if answer is None:
        return entry
    return replace(entry, prompt_text=_text(view.raw) if view else None, answer_text=_text(answer) if answer else None)


def _places_of(decision: Decision | None) -> bytes | None:
    """Where the words of an ask are in the table of weights. Words that only point back at another turn teach nothing."""
    features = decision.signals.features if decision else None
    if decision is None or features is None or not features.has_task:
        return None
    looks = decision.opinions.looks
    return None if looks is not None and looks.points_back else pack_places(features.pieces)


def _cost_of(attempts: list[Attempt], ending: Ending) -> float | None:
    """What all of them cost: not known where that of one is not. Without any, an answer of the router's own costs nothing."""
    if not attempts:
        return 0.0 if ending.outcome is Outcome.SERVED else None
    known = [attempt.cost_usd for attempt in attempts if attempt.cost_usd is not None]
    return round(sum(known), 8) if len(known) == len(attempts) else None


def _all_attempts(exchange: Exchange) -> list[Attempt]:
    return [fact.attempt for fact in exchange.journal if isinstance(fact, AttemptEnded)]


def _all_waits(exchange: Exchange) -> tuple[tuple[str, float], ...]:
    return tuple((fact.target.name, fact.seconds) for fact in exchange.journal if isinstance(fact, Dequeued))


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
