"""What is broken now."""

from msgspec.structs import replace

from router.contract.notices import Notice, Trouble
from router.notices.alerts import NoticeBoard

OUT = Notice(Trouble.TARGET_OUT, "spark", 100.0, "spark: fails", "tandem check --live")
LEDGER = Notice(Trouble.LEDGER_LOSING, "", 50.0, "the ledger loses rows", "tandem check --live")


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
