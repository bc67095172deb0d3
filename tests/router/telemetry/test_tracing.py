"""Switching traces on, off and over, as a reload does."""

import sys
from subprocess import run

from router.contract.facts import Recorded
from router.telemetry.tracing import Tracing
from tests.router.telemetry.traced import begin, finish, terms
from tests.tools.trace_receiver import Receiver


def tell(tracing: Tracing, name: str) -> None:
    exchange, recorded = finish(name)
    if (handle := tracing.handlers().get(Recorded)) is not None:
        handle(exchange, recorded)


def test_without_an_endpoint_nothing_observes_requests_and_nothing_is_loaded_for_it():
    script = (
        "import sys; from router.telemetry.tracing import Tracing; "
        "tracing = Tracing(); assert tracing.follow(None) is None; assert not tracing.handlers(); "
        "assert not {'router.telemetry.traces', 'router.telemetry.genai', 'http.client'} & set(sys.modules)"
    )

    assert run([sys.executable, "-c", script], check=False).returncode == 0


async def test_each_request_goes_to_the_endpoint_that_was_named_when_it_ended():
    tracing = Tracing()
    with Receiver() as first, Receiver() as second:
        headers_for = tracing.follow(terms(first.url))
        tell(tracing, "req_1")
        assert tracing.follow(terms(first.url)) == headers_for  # other keys, say, change nothing here
        tracing.follow(terms(second.url, headers=(("x-key", "1"),)))
        tell(tracing, "req_2")
        first.arrived.acquire()
        assert tracing.follow(None) is None
        tell(tracing, "req_3")
        second.arrived.acquire()
        await tracing.close()

    assert (len(first.traces), len(second.traces)) == (1, 1)
    assert second.seen[0][1]["x-key"] == "1"
    assert tracing.handlers() == {}
    assert tracing.losses.count == 0


async def test_another_sample_applies_from_now_on_and_losses_go_on_being_counted():
    tracing = Tracing()
    with Receiver(400, 400) as receiver:
        tracing.follow(terms(receiver.url))
        tell(tracing, "req_1")
        headers_for = tracing.follow(terms(receiver.url, sample=0.0))
        receiver.arrived.acquire()
        tell(tracing, "req_2")
        tracing.follow(terms(receiver.url, sample=1.0))
        tell(tracing, "req_3")
        await tracing.close()

    assert headers_for(begin("req_2")) == ()
    assert (len(receiver.seen), tracing.losses.count) == (2, 2)


def test_terms_do_not_print_their_headers():
    assert "canary" not in repr(terms(headers=(("x-key", "canary"),)))
