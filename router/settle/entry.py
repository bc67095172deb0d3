"""What happened to a request → its ledger entry."""

from typing import Any, NamedTuple, TypedDict

import msgspec

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
    QuestionEnded,
    Queued,
    Read,
    Replayed,
    Settled,
)
from router.contract.features import pack_places
from router.contract.request import RequestView
from router.contract.signals import Turn
from router.contract.usage import Usage
from router.contract.words import Outcome, TurnKind
from router.dialects.headers import because_served
from router.settle.kept import keep_decision

_MAX_TEXT_BYTES = 1 << 20
_BEGINS = (TurnKind.ASK, TurnKind.FOLLOW_UP)
"""What a person types, at the beginning of a turn."""

_WAITS = frozenset({Queued, QuestionEnded})
_encode = msgspec.json.Encoder().encode


class _Who(TypedDict):
    """The columns that say who asked, and for what."""

    id: str
    at: float
    caller: str
    key: str | None
    job: str | None
    session: str | None
    turn_kind: str | None
    client: str | None
    dialect: str
    model: str
    streaming: bool


class _Course(TypedDict):
    """The columns that say how it went and how it ended."""

    outcome: str
    status: int
    error: str | None
    tier: str | None
    target: str | None
    because: str | None
    score: float | None
    overhead_ms: float
    ttft_ms: float | None
    duration_ms: float


class _Used(TypedDict):
    """The columns that say what it used."""

    tokens_per_second: float | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    tokens_estimated: bool | None
    cost_usd: float | None
    attempts: int


class _NoWord:
    _value_ = None


class _NoRequest:
    """What was sent, of a request whose body was not read."""

    model, is_streaming, raw = "", False, None


class _NoTurn:
    """Who asked, of a request in which nobody looked for that."""

    session = client = person_text = None
    kind = _NoWord


class _NoDecision(NamedTuple):
    """How it went, of a request for which no tier was chosen. `because` says who answered it, if anyone did."""

    because: str | None
    score: None = None
    tier: type[_NoWord] = _NoWord


class _NoUsage:
    """What was used, where nothing is billed."""

    input_tokens = cached_tokens = output_tokens = reasoning_tokens = is_estimated = None


def write_entry(exchange: Exchange, settled: Settled, at: float) -> Entry:
    """Build the entry from the journal's facts. The request ended `at` that time; what it never came to is null."""
    last, answer, kinds = exchange.last, settled.answer, list(map(type, exchange.journal))
    decided, opened, ended = last(Decided), last(AttemptOpened), last(AttemptEnded)
    # Usually there is one attempt, and it is at hand.
    if ended is None or opened is None or kinds.count(AttemptEnded) > 1 or not _WAITS.isdisjoint(kinds):
        attempts, first_at, waits = _read_calls(exchange)
    else:
        attempts, first_at, waits = [ended.attempt], opened.at, ()
    if decided is None:
        view, turn, answered = _read_undecided(exchange)
        course, kept, places = _write_course(exchange, settled, answered, opened, first_at), None, None
    else:
        view, decision = decided.view, decided.decision
        turn, course = decision.turn, _write_course(exchange, settled, decision, opened, first_at)
        kept = keep_decision(
            decision,
            course["because"],
            opened.dropped if opened is not None else (),
            waits,
            keeps_text=answer is not None,
        )
        places = _places_of(decision)
    columns: list[Any] = [
        *_write_who(exchange, at - settled.at, view, turn).values(),
        *course.values(),
        *_write_used(ended, attempts, settled.ending).values(),
    ]
    # By position: the parts are written in the order of the line's fields, and 29 names would take two microseconds.
    if answer is None:
        return Entry(Line(*columns), kept, _encode(attempts).decode(), person_text=turn.person_text, places=places)
    prompt, said = view.raw, _text(answer) or None
    asked = _text(prompt) if prompt is not None else None
    return Entry(Line(*columns), kept, _encode(attempts).decode(), asked, said, turn.person_text, places)


def _read_undecided(exchange: Exchange) -> tuple[RequestView | type[_NoRequest], Turn | type[_NoTurn], _NoDecision]:
    """The request and its turn, as far as they were read before it ended without a decision, and who answered it."""
    read, here, fact = exchange.last(Read), exchange.last(AnsweredHere), exchange.last(Replayed) or exchange.last(PassedOn)
    view, turn = read.view if read is not None else _NoRequest, here.turn if here is not None else _NoTurn
    return view, turn, _NoDecision(fact.because if fact is not None else None)


def _write_who(
    exchange: Exchange, clock_offset: float, view: RequestView | type[_NoRequest], turn: Turn | type[_NoTurn]
) -> _Who:
    """`clock_offset` is what the monotonic clock lacks to be the time of day."""
    arrival = exchange.arrival
    # `_value_` is a word as plain text: SQLite binds that at once, and looks for a way to adapt any other kind of str.
    return {
        "id": arrival.id,
        "at": exchange.began + clock_offset,
        "caller": arrival.caller.name,
        "key": arrival.key,
        "job": arrival.job,
        "session": turn.session,
        "turn_kind": turn.kind._value_,
        "client": turn.client,
        "dialect": arrival.dialect._value_,
        "model": view.model,
        "streaming": view.is_streaming,
    }


def _write_course(
    exchange: Exchange,
    settled: Settled,
    decision: Decision | _NoDecision,
    opened: AttemptOpened | None,
    first_at: float | None,
) -> _Course:
    began, ending, token = exchange.began, settled.ending, exchange.last(FirstToken)
    because = decision.because
    if opened is None:
        served = target = None
    else:
        served = opened.target
        target = served.name
        if opened.failed and isinstance(decision, Decision):
            because = because_served(decision, served, opened.failed)
    return {
        "outcome": ending.outcome._value_,
        "status": ending.status,
        "error": ending.error.code if ending.error is not None else None,
        "tier": (served or decision).tier._value_,
        "target": target,
        "because": because,
        "score": decision.score,
        "overhead_ms": round(((first_at or settled.at) - began) * 1000, 3),
        "ttft_ms": round((token.at - began) * 1000, 2) if token is not None else None,
        "duration_ms": round((settled.at - began) * 1000, 2),
    }


def _write_used(ended: AttemptEnded | None, attempts: list[Attempt], ending: Ending) -> _Used:
    count = len(attempts)
    usage: Usage | type[_NoUsage]
    if ended is None:
        usage, speed = _NoUsage, None
    else:
        usage, speed = ended.usage or _NoUsage, ended.tokens_per_second
    return {
        "tokens_per_second": round(speed, 1) if speed else None,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "tokens_estimated": usage.is_estimated,
        "cost_usd": attempts[0].cost_usd if count == 1 else _cost_of(attempts, ending),
        "attempts": count,
    }


def _cost_of(attempts: list[Attempt], ending: Ending) -> float | None:
    """The cost of all attempts; None unless every one is known. An answer of the router's own costs nothing."""
    if not attempts:
        return 0.0 if ending.outcome is Outcome.SERVED else None
    known = [attempt.cost_usd for attempt in attempts if attempt.cost_usd is not None]
    return round(sum(known), 8) if len(known) == len(attempts) else None


def _read_calls(exchange: Exchange) -> tuple[list[Attempt], float | None, tuple[tuple[str, float], ...]]:
    """All attempts, when the request first waited for somebody else (until then it is our time), and its waits for quotas."""
    journal = exchange.journal
    return (
        [fact.attempt for fact in journal if isinstance(fact, AttemptEnded)],
        exchange.first_call_at(),
        tuple((fact.target.name, fact.seconds) for fact in journal if isinstance(fact, Dequeued)),
    )


def _places_of(decision: Decision) -> bytes | None:
    """Where the words of an ask are in the table of weights. Words that only point back at another turn teach nothing."""
    features = decision.signals.features
    if features is None or not features.has_task or decision.turn.kind not in _BEGINS:
        return None
    looks = decision.opinions.looks
    return None if looks is not None and looks.points_back else pack_places(features.pieces)


def _text(raw: bytes) -> str:
    return raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
