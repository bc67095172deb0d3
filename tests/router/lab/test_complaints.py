import pytest

from router.config.load import find_config, load_config
from router.lab.complaints import count_heard, is_heard
from router.lab.items import Remark
from router.wiring.build import build_house, known_names


def remark(says: str, *, is_complaint: bool) -> Remark:
    return Remark(says, "fix the typo in the footer", is_complaint, "g")


def test_what_was_heard_is_counted_apart_for_complaints_and_other_remarks():
    said = [remark("still red", is_complaint=True), remark("no", is_complaint=True), remark("thanks", is_complaint=False)]

    heard = count_heard(said, [True, False, True])

    assert (heard.bad, heard.fine, heard.caught, heard.alarms) == (2, 1, 1, 1)
    assert (heard.catch, heard.false_alarm) == (0.5, 1.0)


def test_a_share_of_nothing_is_unknown():
    heard = count_heard([], [])

    assert (heard.catch, heard.false_alarm) == (None, None)


@pytest.mark.parametrize(("says", "expected"), [("still red", True), ("that broke the build", True), ("thanks, works", False)])
async def test_the_road_hears_what_a_router_would_hear(says, expected):
    built = build_house(load_config(find_config(None), known_names()), with_ledger=False)

    assert await is_heard(built.house, remark(says, is_complaint=expected)) is expected

    built.house.state.counter.close()
