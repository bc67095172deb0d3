"""What is broken now, which changes are reported, and how seldom."""

import pytest
from msgspec.structs import replace

from router.contract.notices import Notice, Trouble
from router.contract.secret import Secret
from router.notices.alerts import Alerts, NoticeBoard
from router.notices.webhook import Message
from tests.tools.scripted import HandClock
from tests.tools.waiting import later, some_turns, until

OUT = Notice(Trouble.TARGET_OUT, "spark", 1_000.0, "spark: fails", "tandem check --live")
REFUSED = replace(OUT, kind=Trouble.KEY_REFUSED, text="spark: its host refuses the API key")
LEDGER = Notice(Trouble.LEDGER_LOSING, "", 50.0, "the ledger loses rows", "tandem check")
ADDRESS = Secret("env:HOOK")


class Sent:
    """A webhook that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def follow(self, address: Secret | None) -> None:
        self.address = address

    def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(message.kind, message.state) for message in self.messages]


class Watched:
    """Alerts of troubles that a test names, by a clock that it moves."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.sent, self.clock = Sent(), HandClock(1_000.0)
        self.alerts = Alerts(lambda: self.notices, self.sent, self.clock)
        self.alerts.follow(ADDRESS)

    def look(self, *notices: Notice, at: float) -> None:
        self.notices, self.clock.now = list(notices), at
        self.alerts.look()


@pytest.fixture
def watched():
    return Watched()


def test_a_trouble_is_reported_once_when_it_begins_and_once_when_it_is_over(watched):
    for at in (1_000, 1_002, 1_120):
        watched.look(OUT, at=at)
    for at in (1_122, 1_150, 1_152):
        watched.look(at=at)

    began, over = watched.sent.messages
    assert (began.state, began.text) == ("began", "Tandem: spark: fails. To fix it: tandem check --live")
    assert (over.state, over.text) == ("over", "Tandem: over after 2 min: spark: fails")
    assert (began.kind, began.subject, began.since) == (over.kind, over.subject, over.since) == ("target_out", "spark", 1_000.0)


def test_a_trouble_that_comes_and_goes_is_reported_as_one(watched):
    for at in range(1_000, 1_600, 4):
        watched.look(OUT, at=at)
        watched.look(at=at + 2)

    assert watched.sent.states == [("target_out", "began")]


def test_a_trouble_that_becomes_another_kind_is_reported_again_without_an_end_between(watched):
    watched.look(OUT, at=1_000)
    watched.look(REFUSED, at=1_040)
    watched.look(at=1_080)

    assert watched.sent.states == [("target_out", "began"), ("key_refused", "began"), ("key_refused", "over")]


def test_kinds_that_alternate_every_two_seconds_are_reported_every_half_minute_at_most(watched):
    for at in range(1_000, 1_060, 4):
        watched.look(OUT, at=at)
        watched.look(REFUSED, at=at + 2)

    assert len(watched.sent.messages) == 2


def test_another_address_is_sent_what_lasts_and_none_hears_nothing(watched):
    watched.look(OUT, at=1_000)
    watched.alerts.follow(Secret("env:OTHER"))
    watched.look(OUT, at=1_002)

    assert watched.sent.states == [("target_out", "began")] * 2
    assert watched.sent.address == Secret("env:OTHER")


def test_the_same_address_is_not_sent_again_what_lasts(watched):
    watched.look(OUT, at=1_000)
    watched.alerts.follow(ADDRESS)
    watched.look(OUT, at=1_002)

    assert watched.sent.states == [("target_out", "began")]


async def test_nothing_is_looked_at_while_there_is_no_address():
    looks: list[int] = []

    def look() -> list[Notice]:
        looks.append(1)
        return []

    alerts = Alerts(look, Sent())
    watching = later(alerts.watch())
    await some_turns()

    before = len(looks)
    alerts.follow(ADDRESS)
    await until(lambda: looks)

    assert before == 0
    watching.cancel()


def test_all_sources_are_asked_at_each_look_and_the_oldest_trouble_is_first():
    found: list[Notice] = []
    board = NoticeBoard(lambda: found, lambda: [LEDGER])

    before = board()
    found.append(OUT)

    assert (before, board()) == ((LEDGER,), (LEDGER, OUT))
    found.clear()
    assert board() == (LEDGER,)


def test_a_time_that_two_clocks_gave_stays_as_it_was_first_seen():
    times = iter((100.0, 100.3, 99.9))
    board = NoticeBoard(lambda: [replace(OUT, since=next(times))])

    assert len({board() for _ in range(3)}) == 1


def test_a_trouble_that_came_back_has_its_new_time():
    times = iter((100.0, 160.0))
    board = NoticeBoard(lambda: [replace(OUT, since=next(times))])
    board()

    assert board()[0].since == 160.0


def test_a_config_with_the_address_in_use_sends_no_lasting_trouble_again(watched):
    watched.look(OUT, at=1_000)

    watched.alerts.follow(ADDRESS)
    watched.look(OUT, at=1_002)

    assert watched.sent.states == [(Trouble.TARGET_OUT, "began")]
