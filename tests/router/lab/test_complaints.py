"""Complaints that are heard, counted."""

import pytest

from router.config.load import check_config
from router.lab.complaints import Heard, count_heard, is_heard
from router.lab.items import Remark
from router.wiring import build_house, known_names
from tests.conftest import SIMULATED


def remark(says: str, *, is_complaint: bool = True) -> Remark:
    return Remark(says, "fix the typo in the footer", is_complaint, "x 0")


def test_complaints_and_other_remarks_are_counted_apart():
    remarks = [remark("no"), remark("wrong"), remark("thanks", is_complaint=False), remark("ok", is_complaint=False)]

    heard = count_heard(remarks, [True, False, False, True])

    assert heard == Heard(bad=2, fine=2, caught=1, alarms=1)
    assert (heard.catch, heard.false_alarm) == (0.5, 0.5)


def test_without_remarks_there_are_no_rates():
    assert (count_heard([], []).catch, count_heard([], []).false_alarm) == (None, None)


@pytest.mark.parametrize(("says", "expected"), [("no, it still fails with the same message", True), ("rename a to b", False)])
async def test_the_road_hears_a_complaint_and_no_new_ask(tmp_path, says, expected):
    built = build_house(check_config(SIMULATED, "test", tmp_path, known_names()), with_ledger=False)
    try:
        assert await is_heard(built.house, remark(says)) is expected
    finally:
        built.house.state.counter.close()
