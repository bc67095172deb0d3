"""The log as an observer of requests: one line for each, and a warning where an operator should look."""

from collections.abc import Mapping

from router.contract.errors import UpstreamBarred
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, Recorded
from router.contract.words import Outcome
from router.telemetry import events

_MAX_DEFECTS = 1_000
_SERVED = Outcome.SERVED


class RequestLog:
    """Logs a request when it is over, with warnings if there are any."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: _log_request}


def report_defect(exchange: Exchange, error: Exception) -> None:
    events.fault_caught(request_id=exchange.id, kind=type(error).__name__, where=events.place_of(error))


class DefectLog:
    """Logs each defect of an observer once, with the first request that met it: the next thousand would say the same."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def report(self, exchange: Exchange, error: Exception) -> None:
        self.report_by_id(exchange.id, error)

    def report_by_id(self, request_id: str, error: Exception) -> None:
        defect = (type(error).__name__, events.place_of(error))
        if defect not in self._known and len(self._known) < _MAX_DEFECTS:
            self._known.add(defect)
            events.fault_caught(request_id=request_id, kind=defect[0], where=defect[1])


def _log_request(exchange: Exchange, recorded: Recorded) -> None:
    line, decided = recorded.entry.line, exchange.last(Decided)
    if decided is not None and decided.decision.opinions.skipped:
        for skipped in decided.decision.opinions.skipped:
            events.policy_skipped(policy=skipped.policy, reason=skipped.reason)
    if line.attempts > 1 or line.outcome != _SERVED:
        _log_misconfigured(exchange)
    events.request_settled(line)


def _log_misconfigured(exchange: Exchange) -> None:
    for fact in exchange.journal:
        if isinstance(fact, AttemptEnded) and isinstance(fact.error, UpstreamBarred):
            error = fact.error
            events.target_misconfigured(target=fact.target.name, code=error.code, fault=error.fault, words=error.words)
