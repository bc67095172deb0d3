"""Relaying a route that is not decided. The way of whole requests is in tests/walk/test_pass_through.py."""

import asyncio
from dataclasses import replace

import pytest

from router.contract.errors import CallerKey, Unavailable, UpstreamTimeout
from router.contract.exchange import CancelReason, Passed
from router.contract.facts import AttemptEnded, PassedOn
from router.contract.relay import RouteRequest
from router.contract.words import PassedRoute
from router.dispatch.passing import pass_on
from tests.tools.exchanges import RecordingSink, make_exchange
from tests.tools.scripted import reach
from tests.tools.values import make_target
from tests.tools.waiting import later, until

PASSED = Passed(PassedRoute.EMBEDDINGS, RouteRequest("POST", "/embeddings", (), b"{}"))


class Scripted:
    """An adapter that does this with the sink that it is given."""

    def __init__(self, script) -> None:
        self._script, self.is_cancelled, self.is_open = script, False, False

    def open_route(self, target, request, sink):
        self.is_open = True
        self._script(sink)
        return self

    def cancel(self) -> None:
        self.is_cancelled = True

    def pass_on(self, exchange, sink):
        reachable = replace(reach(make_target()), adapter=self)
        return pass_on(exchange, PASSED, reachable, sink, lambda: 1.0)


def answers(status: int):
    def script(sink) -> None:
        sink.start(status, (("content-type", "text/plain"), ("x-internal", "1")))
        sink.write(b"words")
        sink.end()

    return script


@pytest.mark.parametrize(("status", "outcome"), [(200, "SERVED"), (304, "SERVED"), (404, "REFUSED"), (500, "FAILED")])
async def test_every_answer_passes_and_its_status_is_the_outcome(status, outcome):
    adapter, sink, exchange = Scripted(answers(status)), RecordingSink(), make_exchange()

    ending = await adapter.pass_on(exchange, sink)

    assert (ending.outcome, ending.status) == (outcome, status)
    assert (sink.status, sink.body, dict(sink.headers).get("x-internal")) == (status, b"words", None)
    assert exchange.last(PassedOn).because == "pass_through names spark for embeddings"
    assert (exchange.last(AttemptEnded).attempt.status, exchange.last(AttemptEnded).error) == (status, None)
    assert not adapter.is_cancelled


async def test_a_deadline_ends_the_call_and_is_told():
    adapter, exchange = Scripted(lambda sink: None), make_exchange(seconds=1.0)

    with pytest.raises(UpstreamTimeout, match="deadline of 1 s"):
        await adapter.pass_on(exchange, RecordingSink())

    assert adapter.is_cancelled
    assert exchange.last(AttemptEnded).attempt.error == "upstream_timeout"


async def test_a_key_that_the_caller_did_not_bring_is_told():
    def script(sink):
        raise CallerKey("bring one")

    with pytest.raises(CallerKey):
        await Scripted(script).pass_on(make_exchange(), RecordingSink())


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_caller_who_is_still_there_is_told_that_the_router_stops(has_begun):
    adapter = Scripted(lambda sink: sink.start(200, ()) if has_begun else None)
    exchange, sink = make_exchange(), RecordingSink()
    work = later(adapter.pass_on(exchange, sink))
    exchange.run_by(work)
    await until(lambda: adapter.is_open)

    exchange.cancel(CancelReason.STOPPING)

    with pytest.raises(asyncio.CancelledError if has_begun else Unavailable):
        await work
    assert isinstance(sink.error, Unavailable) is has_begun
    assert adapter.is_cancelled
    assert exchange.last(AttemptEnded).attempt.error == "abandoned"
