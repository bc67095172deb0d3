"""A finished request → its spans: its own (SERVER), `decide` (INTERNAL), and one for each attempt (CLIENT).

No span has words of a prompt or an answer.
"""

from dataclasses import dataclass

from router.contract.entry import Attempt, Line
from router.contract.facts import (
    AttemptEnded,
    AttemptOpened,
    Dequeued,
    FirstToken,
    QuestionEnded,
    Queued,
)
from router.contract.target import Target
from router.contract.tracing import TracedRoute, TraceTerms
from router.contract.words import Outcome
from router.telemetry import genai
from router.telemetry.finished import AnsweredBy, Finished
from router.telemetry.otlp import CLIENT, INTERNAL, SERVER, Event, Value, describe_event, write_span
from router.telemetry.trace_context import LOOK, Ids, attempt_id, ids_of, name_conversation

_FAULTS = (Outcome.FAILED, Outcome.CUT_SHORT)
_ABANDONED = "abandoned"


@dataclass(slots=True)
class _Call:
    """One attempt, put together from its facts."""

    span_id: str
    target: Target
    opened: float
    closed: float | None = None
    attempt: Attempt | None = None
    first_token_at: float | None = None
    model: str | None = None


class SpanWriter:
    """Writes the spans of requests.

    `offset` is what the monotonic clock lacks to be the time of day, in nanoseconds. All times are converted by this one sum,
    and those of a child are kept within its parent's, so spans nest exactly.
    """

    def __init__(self, terms: TraceTerms, offset: int) -> None:
        self._providers, self._routes, self._scheme, self._offset = terms.providers, terms.routes, terms.scheme, offset

    def write(self, finished: Finished) -> bytes:
        """The spans of one request, separated by commas."""
        ids = ids_of(finished.line.id, finished.parent)
        calls, request_events, first_at = self._fold(finished)
        spans = [self._write_request(finished, ids, request_events)]
        decided_at = min(max(first_at, finished.began), finished.ended)
        if finished.decision is not None:
            spans.append(self._write_decide(finished, ids, decided_at))
        spans += [self._write_call(finished, ids, call) for call in calls]
        return b",".join(spans)

    def _fold(self, finished: Finished) -> tuple[list[_Call], list[Event], float]:
        """The attempts, what happened besides them, and when the request first waited for a target."""
        calls: list[_Call] = []
        told: list[Event] = []
        first_at, request_id, opened = finished.ended, finished.line.id, 0
        queued: Queued | None = None
        call: _Call | None = None
        for fact in finished.facts:
            if isinstance(fact, AttemptOpened):
                call = _Call(attempt_id(request_id, opened), fact.target, fact.at)
                calls.append(call)
                first_at, opened = min(first_at, fact.at), opened + 1
            elif isinstance(fact, QuestionEnded):
                span_id = attempt_id(request_id, LOOK)
                calls.append(_Call(span_id, fact.target, fact.opened_at, fact.at, fact.attempt))
            elif isinstance(fact, AttemptEnded):
                if call is None:
                    told.append(describe_event(genai.NOT_SENT, self._at(fact.at), _not_sent(fact)))
                else:
                    call.closed, call.attempt, call = fact.at, fact.attempt, None
            elif isinstance(fact, FirstToken) and call is not None:
                call.first_token_at = fact.at
            elif isinstance(fact, AnsweredBy) and call is not None:
                call.model = fact.model
            elif isinstance(fact, Queued):
                queued, first_at = fact, min(first_at, fact.at)
            elif isinstance(fact, Dequeued) and queued is not None:
                told.append(describe_event(genai.QUEUED, self._at(queued.at), _waited(queued, fact)))
        return calls, told, first_at

    def _write_request(self, finished: Finished, ids: Ids, told: list[Event]) -> bytes:
        line, parent = finished.line, finished.parent
        method, (route, operation) = finished.method, self._route_of(finished)
        values: dict[str, Value] = {
            genai.METHOD: method,
            genai.ROUTE: route,
            genai.PATH: finished.path or route,
            genai.SCHEME: self._scheme,
            genai.STATUS: line.status,
            genai.OPERATION: operation,
            genai.MODEL: line.model or None,
            genai.STREAM: line.streaming or None,
            genai.CONVERSATION: _conversation(line),
            genai.REQUEST_ID: line.id,
            genai.OUTCOME: line.outcome,
            genai.TARGET: line.target,
            genai.TIER: line.tier,
            genai.BECAUSE: line.because,
            genai.ERROR: line.error,
        }
        name = f"{method} {route}"
        if finished.is_on_socket:
            name = route
            del values[genai.METHOD]
            values |= {genai.PROTOCOL: "websocket", genai.SCHEME: self._scheme.replace("http", "ws")}
        return write_span(
            (ids.trace, ids.request, parent.span_id if parent is not None else ""),
            name,
            SERVER,
            self._times(finished.began, finished.ended),
            values,
            state=_state(finished),
            events=told,
            is_failed=line.outcome in _FAULTS,
        )

    def _write_decide(self, finished: Finished, ids: Ids, ended: float) -> bytes:
        assert finished.decision is not None
        tier, decided_by, because = finished.decision
        values = {
            genai.TIER: tier.value,
            genai.BECAUSE: because,
            genai.SCORE: finished.line.score,
            genai.DECIDED_BY: decided_by,
        }
        own, times = (ids.trace, ids.decide, ids.request), self._times(finished.began, ended)
        return write_span(own, genai.DECIDE, INTERNAL, times, values, state=_state(finished))

    def _write_call(self, finished: Finished, ids: Ids, call: _Call) -> bytes:
        line, target, attempt = finished.line, call.target, call.attempt
        is_question = attempt is not None and attempt.is_question
        operation = "chat" if is_question else self._route_of(finished).operation
        values: dict[str, Value] = {
            genai.OPERATION: operation,
            genai.PROVIDER: self._providers.get(target.name, "openai"),
            genai.MODEL: target.model or None,
            genai.STREAM: (line.streaming and not is_question) or None,
            genai.CONVERSATION: _conversation(line),
            genai.TARGET: target.name,
            genai.TIER: target.tier.value,
            genai.ANSWERED_BY: call.model,
            genai.IS_QUESTION: is_question or None,
        }
        if call.first_token_at is not None:
            values[genai.FIRST_CHUNK] = round(call.first_token_at - call.opened, 6)
        error = attempt.error if attempt is not None else _ABANDONED
        if attempt is not None:
            values |= {genai.STATUS: attempt.status, genai.ERROR: error, **_usage(attempt)}
        began = min(max(call.opened, finished.began), finished.ended)
        ended = finished.ended if call.closed is None else min(max(call.closed, began), finished.ended)
        name = f"{operation} {target.model or target.name}"
        own, is_failed = (ids.trace, call.span_id, ids.request), error not in (None, _ABANDONED)
        return write_span(own, name, CLIENT, self._times(began, ended), values, state=_state(finished), is_failed=is_failed)

    def _route_of(self, finished: Finished) -> TracedRoute:
        if finished.passed is not None:
            return TracedRoute(f"/v1/{finished.passed}", finished.passed.value)
        return self._routes[finished.dialect, finished.operation]

    def _times(self, began: float, ended: float) -> tuple[int, int]:
        return self._at(began), self._at(ended)

    def _at(self, seconds: float) -> int:
        return self._offset + round(seconds * 1e9)


def _state(finished: Finished) -> str:
    return finished.parent.state if finished.parent is not None else ""


def _conversation(line: Line) -> str | None:
    return name_conversation(line.caller, line.session) if line.session else None


def _usage(attempt: Attempt) -> dict[str, int | None]:
    usage = attempt.usage
    if usage is None:
        return {}
    return {
        genai.INPUT: usage.input_tokens,
        genai.OUTPUT: usage.output_tokens,
        genai.CACHE_READ: usage.cached_tokens or None,
        genai.CACHE_WRITE: usage.cache_write_tokens or None,
        genai.REASONING: usage.reasoning_tokens or None,
    }


def _waited(queued: Queued, dequeued: Dequeued) -> dict[str, Value]:
    return {
        genai.TARGET: queued.target.name,
        genai.WAIT_SECONDS: round(dequeued.seconds, 6),
        genai.POSITION: queued.position,
        genai.LENGTH: queued.length,
        genai.HAS_TURN: dequeued.has_turn,
    }


def _not_sent(ended: AttemptEnded) -> dict[str, Value]:
    return {genai.TARGET: ended.target.name, genai.ERROR: ended.attempt.error}
