"""A request under way is shown from when it is known where it goes, with what is known by then."""

from router.contract.facts import AttemptOpened
from router.page.begun import has_begun, show_begun, target_of
from tests.tools.exchanges import make_decided, make_exchange
from tests.tools.values import make_target


def test_a_request_that_is_not_decided_has_not_begun():
    exchange = make_exchange()

    assert not has_begun(exchange)
    assert target_of(exchange) is None


def test_a_decided_request_is_shown_at_the_target_that_is_called_now():
    exchange = make_exchange()
    exchange.note(decided := make_decided())

    before = show_begun(exchange, lambda: exchange.began)
    exchange.note(AttemptOpened(0.0, make_target("other"), "", ()))
    after = show_begun(exchange, lambda: exchange.began)

    assert has_begun(exchange)
    assert (before["target"], before["because"]) == (decided.decision.targets[0], decided.decision.because)
    assert (after["target"], after["tier"]) == ("other", "fast")
