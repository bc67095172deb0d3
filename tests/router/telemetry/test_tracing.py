"""Switching traces on, off and over, as a reload does."""

import sys
from subprocess import run

from router.contract.exchange import Observers
from router.contract.facts import Recorded
from router.telemetry.tracing import Tracing
from tests.router.telemetry.traced import begin, finish, terms
from tests.tools.trace_receiver import Receiver


def tell(observers: Observers, name: str) -> None:
    exchange, recorded = finish(name)
    for handle in observers.handlers[Recorded]:
        handle(exchange, recorded)


def test_without_an_endpoint_nothing_observes_requests_and_nothing_is_loaded_for_it():
    script = (
        "import sys; from router.contract.exchange import Observers; from router.telemetry.tracing import Tracing; "
        "observers = Observers((), print); assert Tracing().follow(None, observers) is None; assert not observers.handlers; "
        "assert not {'router.telemetry.traces', 'router.telemetry.genai', 'http.client'} & set(sys.modules)"
    )

    assert run([sys.executable, "-c", script], check=False).returncode == 0


async def test_each_request_goes_to_the_endpoint_that_was_named_when_it_ended():
    tracing, observers = Tracing(), Observers((), print)
    with Receiver() as first, Receiver() as second:
        headers_for = tracing.follow(terms(first.url), observers)
        tell(observers, "req_1")
        assert tracing.follow(terms(first.url), observers) == headers_for  # other keys, say, change nothing here
        tracing.follow(terms(second.url, headers=(("x-key", "1"),)), observers)
        tell(observers, "req_2")
        first.arrived.acquire()
        assert tracing.follow(None, observers) is None
        tell(observers, "req_3")
        second.arrived.acquire()
        await tracing.close()

    assert (len(first.traces), len(second.traces)) == (1, 1)
    assert second.seen[0][1]["x-key"] == "1"
    assert observers.handlers[Recorded] == []
    assert tracing.losses.count == 0


async def test_another_sample_applies_from_now_on_and_losses_go_on_being_counted():
    tracing, observers = Tracing(), Observers((), print)
    with Receiver(400, 400) as receiver:
        tracing.follow(terms(receiver.url), observers)
        tell(observers, "req_1")
        headers_for = tracing.follow(terms(receiver.url, sample=0.0), observers)
        receiver.arrived.acquire()
        tell(observers, "req_2")
        tracing.follow(terms(receiver.url, sample=1.0), observers)
        tell(observers, "req_3")
        await tracing.close()

    assert headers_for(begin("req_2")) == ()
    assert (len(receiver.seen), tracing.losses.count) == (2, 2)


def test_terms_do_not_print_their_headers():
    assert "canary" not in repr(terms(headers=(("x-key", "canary"),)))
