"""The log as an observer of requests: one line for each, and a warning where an operator should look."""

from collections.abc import Mapping

from router.contract.decision import Decision
from router.contract.errors import UpstreamBarred
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, Recorded
from router.contract.words import Outcome
from router.telemetry import events


class RequestLog:
    """Logs a request when it is over, with warnings if there are any."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: _log_request}


def report_defect(exchange: Exchange, error: Exception) -> None:
    """Log the defect of an observer, by its kind and place."""
    events.fault_caught(request_id=exchange.id, kind=type(error).__name__, where=events.place_of(error))


def _log_request(exchange: Exchange, recorded: Recorded) -> None:
    line, decided = recorded.entry.line, exchange.last(Decided)
    if decided is not None and decided.decision.opinions.skipped:
        _log_skipped(decided.decision)
    if line.attempts > 1 or line.outcome != Outcome.SERVED:
        _log_misconfigured(exchange)
    events.request_settled(line)


def _log_skipped(decision: Decision) -> None:
    for skipped in decision.opinions.skipped:
        events.policy_skipped(policy=skipped.policy, reason=skipped.reason)


def _log_misconfigured(exchange: Exchange) -> None:
    for fact in exchange.journal:
        if isinstance(fact, AttemptEnded) and isinstance(fact.error, UpstreamBarred):
            error = fact.error
            events.target_misconfigured(target=fact.target.name, code=error.code, fault=error.fault, words=error.words)
