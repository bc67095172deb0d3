"""Who is dialled before anybody asks."""

from router.contract.facts import Decided
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import SessionPosition
from router.contract.words import Tier
from router.dialects.fitting import Fit
from router.dispatch.outgoing import Reachable
from router.dispatch.preconnect import Preconnector
from tests.tools.exchanges import make_decision
from tests.tools.scripted import reach
from tests.tools.values import make_target, make_view


class Dialler:
    """An adapter that keeps whom it was to dial."""

    def __init__(self, dialled: list[str]) -> None:
        self.dialled = dialled

    def open(self, request, sink): ...

    def connect_ahead(self, target) -> None:
        self.dialled.append(target.name)


def make_ahead(*names: str) -> tuple[Preconnector, list[str]]:
    dialled: list[str] = []
    reachable = {name: Reachable(make_target(name), Dialler(dialled), name, Fit()) for name in names}
    return Preconnector(reachable), dialled


def decided(target: str | None = None, rival: str = "") -> Decided:
    session = SessionSnapshot("s", SessionState(target=target), SessionPosition(), {}, 1)
    return Decided(make_view({"messages": [{"role": "user", "content": "hi"}]}), session, make_decision(rival=rival))


def test_the_first_request_of_a_session_has_all_others_dialled_and_not_its_own_target():
    ahead, dialled = make_ahead("spark", "sage", "other")

    ahead.look(decided(), 0.0)

    assert decided().decision.targets[0] == "spark"
    assert dialled == ["sage", "other"]


def test_a_later_request_has_only_a_rival_dialled():
    ahead, dialled = make_ahead("spark", "sage")
    ahead.look(decided("spark"), 0.0)
    assert dialled == []

    ahead.look(decided("spark", rival="sage"), 0.0)
    assert dialled == ["sage"]


def test_requests_are_looked_at_once_in_a_second():
    ahead, _ = make_ahead("spark")
    assert ahead.due < 0

    ahead.look(decided("spark"), 7.0)

    assert ahead.due == 8.0


def test_of_many_targets_the_first_eight_are_dialled():
    ahead, dialled = make_ahead(*(f"t{number}" for number in range(20)))

    ahead.connect()

    assert dialled == [f"t{number}" for number in range(8)]


def test_an_adapter_that_dials_nobody_is_left_out():
    reachable = reach(make_target("simulated", Tier.FAST))

    Preconnector({"simulated": reachable}).connect()

    assert reachable.adapter.opened == []
