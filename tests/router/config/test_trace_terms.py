"""What a config says of traces."""

from router.config.trace_terms import find_trace_terms
from router.contract.words import Dialect, Operation
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


def test_without_a_collector_there_are_no_terms():
    assert find_trace_terms(load_text(SIMULATED)) is None


def test_terms_name_every_route_and_the_provider_of_every_target():
    terms = find_trace_terms(load_text(SIMULATED + "traces: {endpoint: 'http://127.0.0.1:4318', sample: 0.5}\n"))

    assert (terms.endpoint, terms.sample) == ("http://127.0.0.1:4318", 0.5)
    assert terms.routes[Dialect.CHAT, Operation.CREATE].path == "/v1/chat/completions"
    assert set(terms.providers) == {"simulated-fast", "simulated-deep"}
