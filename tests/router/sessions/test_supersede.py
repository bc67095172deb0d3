"""Requests that take one another's place."""

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.exchange import CancelReason
from router.contract.facts import Decided
from router.contract.request import Overrides
from router.contract.signals import Turn
from router.contract.words import Dialect, TurnKind
from router.sessions.supersede import Superseding
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.values import ask, make_view


class Desk:
    """Hands facts to the observer, as the road would."""

    def __init__(self) -> None:
        self.running = set()
        self._take_place = Superseding(self.running).handlers()[Decided]
        self._clock = 0.0

    def begin(self, key=None, session="s", caller="ann", dialect=Dialect.CHAT, is_guessed=False, began=None, headers=None):
        self._clock += 1
        exchange = make_exchange()
        exchange.began = self._clock if began is None else began
        body = {"prompt": "def f("} if dialect is Dialect.COMPLETIONS else ask().body
        view = replace(
            make_view(body, dialect), overrides=Overrides(supersede=key), caller=Caller(caller), headers=headers or {}
        )
        turn = Turn(TurnKind.ASK, session, "unknown", is_guessed=is_guessed)
        self.running.add(exchange)
        decided = make_decided(view, make_decision(turn=turn))
        exchange.note(decided)
        self._take_place(exchange, decided)
        return exchange


@pytest.fixture
def desk():
    return Desk()


def test_a_newer_request_with_the_same_key_takes_the_place_of_the_older(desk):
    first, second = desk.begin("lint"), desk.begin("lint")

    assert (first.cancelled, second.cancelled) == (CancelReason.SUPERSEDED, None)


def test_another_key_session_or_caller_is_left_alone(desk):
    exchanges = [desk.begin("lint"), desk.begin("type"), desk.begin("lint", session="t"), desk.begin("lint", caller="bob")]

    assert [exchange.cancelled for exchange in exchanges] == [None] * 4


def test_without_a_key_nothing_is_superseded_but_completions_of_a_named_session(desk):
    chats = [desk.begin(), desk.begin()]
    typed = [desk.begin(dialect=Dialect.COMPLETIONS), desk.begin(dialect=Dialect.COMPLETIONS)]
    guessed = [desk.begin(dialect=Dialect.COMPLETIONS, is_guessed=True) for _ in range(2)]

    assert [exchange.cancelled for exchange in chats + guessed] == [None] * 4
    assert [exchange.cancelled for exchange in typed] == [CancelReason.SUPERSEDED, None]


def test_without_a_session_that_the_client_named_nothing_is_superseded(desk):
    exchanges = [desk.begin("lint", is_guessed=True), desk.begin("lint", is_guessed=True), desk.begin("lint", session="")]

    assert [exchange.cancelled for exchange in exchanges] == [None] * 3


def test_another_credential_is_left_alone_whatever_session_it_names(desk):
    first, second = (desk.begin("lint", headers={"authorization": f"Bearer {key}"}) for key in "ab")
    third = desk.begin("lint", headers={"authorization": "Bearer b"})

    assert [each.cancelled for each in (first, second, third)] == [None, CancelReason.SUPERSEDED, None]


def test_what_came_earlier_and_was_decided_later_gives_way(desk):
    newer, older = desk.begin("lint", began=2.0), desk.begin("lint", began=1.0)

    assert (newer.cancelled, older.cancelled) == (None, CancelReason.SUPERSEDED)


def test_a_request_that_is_over_is_left_alone(desk):
    first = desk.begin("lint")
    desk.running.discard(first)
    second = desk.begin("lint")

    assert (first.cancelled, second.cancelled) == (None, None)
