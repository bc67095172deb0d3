"""The log as an observer of requests: one line for each, and a warning where an operator should look."""

from collections.abc import Mapping

from router.contract.errors import UpstreamAuth, UpstreamModel
from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptEnded, Decided, Fact, Recorded
from router.telemetry import events


class RequestLog:
    """Logs what is worth a line."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Decided: _log_skipped, AttemptEnded: _log_misconfigured, Recorded: _log_request}


def _log_skipped(_: Exchange, decided: Decided) -> None:
    for skipped in decided.decision.skipped:
        events.policy_skipped(policy=skipped.policy, reason=skipped.reason)


def _log_misconfigured(_: Exchange, ended: AttemptEnded) -> None:
    if isinstance(ended.error, (UpstreamAuth, UpstreamModel)):
        events.target_misconfigured(target=ended.target.name, code=ended.error.code)


def _log_request(_: Exchange, recorded: Recorded) -> None:
    events.request_settled(recorded.entry)
