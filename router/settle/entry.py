"""What happened to a request → its ledger entry."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.entry import MIXED, PLAN, Attempt, Entry, Line
from router.contract.errors import BudgetSpent, NotPermitted, RateLimited, RequestError, TandemError, TooManyJobs
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
    QuestionEnded,
    Queued,
    Read,
    Replayed,
    Settled,
)
from router.contract.request import RequestView
from router.contract.signals import Turn
from router.contract.usage import Usage
from router.contract.words import NOBODY_SERVED, Outcome
from router.dialects.headers import because_served
from router.settle.kept import keep_decision

_MAX_TEXT_BYTES = 1 << 20
_MAX_MESSAGE = 400

_WAITS = frozenset({Queued, QuestionEnded})
_encode = msgspec.json.Encoder().encode


class _NoWord:
    _value_ = None


class _NoRequest:
    """The body was not read."""

    model, is_streaming, raw = "", False, None


class _NoTurn:
    """The turn was not identified."""

    session = client = person_text = None
    kind = _NoWord


class _NoDecision(NamedTuple):
    """No tier was chosen. `because` names what answered instead, if anything."""

    because: str | None
    score: None = None
    combined: None = None
    tier: type[_NoWord] = _NoWord


class _NoUsage:
    """Nothing is billed."""

    input_tokens = cached_tokens = output_tokens = reasoning_tokens = is_estimated = None


class _Paid(NamedTuple):
    """The money of several attempts, under the names of one."""

    cost_usd: float | None
    billing: str | None = None
    list_usd: float | None = None


def write_entry(exchange: Exchange, settled: Settled, at: float) -> Entry:
    """`at` is the end; what the request never reached is null."""
    last, answer, newest = exchange.last, settled.answer, exchange.newest
    decided, opened, ended = last(Decided), last(AttemptOpened), last(AttemptEnded)
    paid: Attempt | _Paid
    # The common case: one attempt, and no kind of fact twice.
    if ended is None or opened is None or len(newest) < len(exchange.journal) or not _WAITS.isdisjoint(newest):
        attempts, first_at, waits = _read_calls(exchange)
        paid = _add_up(attempts, settled.ending)
    else:
        paid = own = ended.attempt
        attempts, first_at, waits = [own], opened.at, ()
    decision: Decision | _NoDecision
    if decided is None:
        view, turn, decision = _read_undecided(exchange)
    else:
        view, decision = decided.view, decided.decision
        turn = decision.turn
    line = _write_line(exchange, settled, at, view, turn, decision, opened, first_at, ended, attempts, paid)
    if paid.billing is not None:
        line = replace(line, billing=paid.billing, list_usd=paid.list_usd)
    if decision.combined is not None:
        line = replace(line, combined=decision.combined)
    kept = None
    if decided is not None:
        dropped = opened.dropped if opened is not None else ()
        kept = keep_decision(decided.decision, line.because, dropped, waits, keeps_text=answer is not None)
    if answer is None:
        return Entry(line, kept, _encode(attempts).decode(), person_text=turn.person_text)
    prompt, said = view.raw, _text(answer) or None
    asked = _text(prompt) if prompt is not None else None
    return Entry(line, kept, _encode(attempts).decode(), asked, said, turn.person_text)


def _read_undecided(exchange: Exchange) -> tuple[RequestView | type[_NoRequest], Turn | type[_NoTurn], _NoDecision]:
    """The request and turn as far as read, and what answered it."""
    read, here, fact = exchange.last(Read), exchange.last(AnsweredHere), exchange.last(Replayed) or exchange.last(PassedOn)
    view, turn = read.view if read is not None else _NoRequest, here.turn if here is not None else _NoTurn
    return view, turn, _NoDecision(fact.because if fact is not None else None)


def _write_line(
    exchange: Exchange,
    settled: Settled,
    at: float,
    view: RequestView | type[_NoRequest],
    turn: Turn | type[_NoTurn],
    decision: Decision | _NoDecision,
    opened: AttemptOpened | None,
    first_at: float | None,
    ended: AttemptEnded | None,
    attempts: list[Attempt],
    paid: Attempt | _Paid,
) -> Line:
    arrival, ending, began, ended_at = exchange.arrival, settled.ending, exchange.began, settled.at
    because, error, token = decision.because, ending.error, exchange.last(FirstToken)
    served = opened.target if opened is not None else None
    if opened is not None and opened.failed and isinstance(decision, Decision):
        because = because_served(decision, opened.target, opened.failed)
    if error is not None and ending.outcome in NOBODY_SERVED and not _may_quote(error):
        because = error.message[:_MAX_MESSAGE]
    usage: Usage | type[_NoUsage]
    if ended is None:
        usage, speed = _NoUsage, None
    else:
        usage, speed = ended.usage or _NoUsage, ended.tokens_per_second
    # By position, in field order: 29 names would take two microseconds. `_value_` is plain text, which SQLite binds directly;
    # it searches for an adapter for any other kind of str.
    return Line(
        arrival.id,
        began + (at - ended_at),
        arrival.caller.name,
        arrival.key,
        arrival.job,
        turn.session,
        turn.kind._value_,
        turn.client,
        arrival.dialect._value_,
        view.model,
        view.is_streaming,
        ending.outcome._value_,
        ending.status,
        error.code if error is not None else None,
        (served or decision).tier._value_,
        served.name if served is not None else None,
        because,
        decision.score,
        round(((first_at or ended_at) - began) * 1000, 3),
        round((token.at - began) * 1000, 2) if token is not None else None,
        round((ended_at - began) * 1000, 2),
        round(speed, 1) if speed else None,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.is_estimated,
        paid.cost_usd,
        len(attempts),
    )


def _may_quote(error: TandemError) -> bool:
    """Whether its message may repeat part of the request, whose text is not kept."""
    return isinstance(error, RequestError) and not isinstance(error, (RateLimited, BudgetSpent, TooManyJobs, NotPermitted))


def _add_up(attempts: list[Attempt], ending: Ending) -> _Paid:
    """The cost is None unless every attempt's is known. The router's own answers are free."""
    if not attempts:
        return _Paid(0.0 if ending.outcome is Outcome.SERVED else None)
    known = [attempt.cost_usd for attempt in attempts if attempt.cost_usd is not None]
    listed = [attempt.list_usd for attempt in attempts if attempt.list_usd is not None]
    used = {attempt.billing for attempt in attempts if attempt.usage is not None}
    billing = PLAN if used == {PLAN} else MIXED if PLAN in used else None
    return _Paid(
        round(sum(known), 8) if len(known) == len(attempts) else None,
        billing,
        round(sum(listed), 8) if listed else None,
    )


def _read_calls(exchange: Exchange) -> tuple[list[Attempt], float | None, tuple[tuple[str, float], ...]]:
    """All attempts, when the request first waited for others (until then it is our time), and its waits for quotas."""
    journal = exchange.journal
    return (
        [fact.attempt for fact in journal if isinstance(fact, AttemptEnded)],
        exchange.first_call_at(),
        tuple((fact.target.name, fact.seconds) for fact in journal if isinstance(fact, Dequeued)),
    )


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
