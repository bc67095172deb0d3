"""The feed as lines of a terminal."""

from router.screen.feed_view import FeedView
from router.screen.text import Style
from tests.router.screen.test_screen import Paper
from tests.tools.feed_server import make_begun, make_hello, make_row

NOW = 1_000.0
NOTICE = {"kind": "target_out", "subject": "spark", "since": 900.0, "text": "spark: fails", "hint": "tandem check --live"}


class Shown:
    """A view and a terminal that it is drawn on."""

    def __init__(self) -> None:
        self.paper = Paper()
        self.view = FeedView(self.paper, Style(), clock=lambda: NOW)

    def take(self, event: str, **data) -> list[str]:
        self.view.take(event, data)
        return self.draw()

    def draw(self) -> list[str]:
        self.view.draw()
        return self.paper.lines()


def test_a_call_is_running_until_its_row_comes():
    shown = Shown()
    during = shown.take("hello", **make_hello(running=[make_begun("req_1")]))
    after = shown.take("batch", rows=[make_row("req_1")])

    assert "running" in during[-1]
    assert len(after) == len(during)
    assert "running" not in after[-1]


def test_a_row_whose_beginning_was_missed_is_a_line_too():
    assert "quick edit: typo" in Shown().take("batch", rows=[make_row("req_1")])[-1]


def test_a_turn_of_another_router_has_its_name_before_the_reason():
    shown = Shown()
    during = shown.take("hello", **make_hello(running=[{**make_begun("req_1"), "replica": "two"}]))
    after = shown.take("batch", rows=[{**make_row("req_1"), "replica": "two"}, make_row("req_2")])

    assert "two: quick edit: typo" in during[-1]
    assert [("two: " in line) for line in after[-2:]] == [True, False]


def test_a_job_goes_by_its_id():
    assert "job 8f3c " in Shown().take("hello", **make_hello(running=[{**make_begun("req_1"), "job": "resp_18f3c"}]))[-1]


def test_a_row_that_is_sent_again_is_shown_once():
    shown = Shown()
    first = shown.take("batch", rows=[make_row("req_1")])

    assert shown.take("batch", rows=[make_row("req_1")]) == first


def test_a_call_that_ended_while_nobody_listened_is_no_longer_running():
    shown = Shown()
    shown.take("hello", **make_hello(running=[make_begun("req_1")]))

    assert "running" not in shown.take("hello", **make_hello())[-1]


def test_rows_that_are_not_sent_are_counted():
    lines = Shown().take("batch", rows=[make_row("req_1")], more=312, missed=1)

    assert lines[:2] == ["… 1 call missed here", "… 312 calls not shown"]


def test_a_notice_stays_below_the_turns_until_a_batch_says_otherwise():
    shown = Shown()
    shown.take("hello", **make_hello(notices=[NOTICE]))
    kept = shown.take("batch", rows=[make_row("req_1")])
    gone = shown.take("batch", rows=[], notices=[])

    assert "spark: fails" in kept[-1]
    assert "spark: fails" not in "".join(gone)


def test_a_lost_router_is_named_until_it_is_back():
    shown = Shown()
    shown.view.lose("lost the router")
    lost = shown.draw()

    assert lost == ["! lost the router"]
    assert shown.take("hello", **make_hello()) == []


def test_what_another_version_sends_is_left_out():
    shown = Shown()

    assert shown.take("batch", rows=[{"id": "req_1"}, "x"], begun=[{"id": 7}], notices=[{"kind": "new"}]) == []
    assert shown.take("news", rows=[make_row("req_2")]) == []


def test_clocks_run_by_the_routers_time():
    now = [NOW]
    view = FeedView(Paper(), Style(), clock=lambda: now[0])
    view.take("hello", make_hello(now=5_000.0))
    now[0] += 1.0

    assert view.time_there() == 5_001.0


def test_targets_savings_and_jobs_stay_below_the_turns_in_this_order():
    shown = Shown()
    shown.take("savings", turns=3, sentence="$2.10 less than all on deep")
    shown.take("batch", rows=[make_row("req_1")])
    lines = shown.take("stats", targets={"a": {"tier": "fast"}}, jobs=[{"id": "resp_1", "state": "failed", "ended_at": 1.0}])

    assert [line.split()[0] for line in lines[-3:]] == ["fast", "last", "job"]


def test_nothing_is_drawn_while_nothing_changes():
    shown = Shown()
    shown.take("batch", rows=[make_row("req_1")])
    before = shown.paper.given

    shown.draw()
    assert shown.paper.given == before
    shown.take("batch", rows=[make_row("req_2")])
    assert shown.paper.given == before + 1
