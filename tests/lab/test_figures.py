"""The figures of labelled data: what they count, and what they leave unsaid."""

import pytest

from tests.lab.figures import Judged, auroc, measure, split_by_set
from tests.lab.labelled import Item


def judged(is_long: bool, score: float, is_fast: bool, source: str = "s") -> Judged:
    return Judged(Item(source, "r", "words", is_long, is_clear=True), score, is_fast)


def test_auroc_is_one_for_perfect_order_half_for_ties_and_none_for_one_kind():
    assert auroc([(0.1, False), (0.9, True)]) == 1.0
    assert auroc([(0.5, False), (0.5, True)]) == 0.5
    assert auroc([(0.9, False), (0.1, True)]) == 0.0
    assert auroc([(0.2, False), (0.4, True), (0.4, False), (0.6, True)]) == 0.875
    assert auroc([(0.9, True)]) is None


@pytest.mark.parametrize(("on_fast", "share"), [((), 1.0), ((0,), 0.75), ((0, 1, 2, 3), 0.0)])
def test_recalls_are_the_shares_that_went_where_they_belong(on_fast, share):
    long = [judged(True, 0.5, number in on_fast) for number in range(4)]

    figures = measure([*long, judged(False, 0.5, True), judged(False, 0.5, False)])

    assert (figures.items, figures.long_recall, figures.quick_recall) == (6, share, 0.5)
    assert figures.fast_share == pytest.approx((1 + len(on_fast)) / 6)


def test_a_recall_of_nothing_is_unknown():
    figures = measure([judged(False, 0.1, True)])

    assert (figures.long_recall, figures.quick_recall, figures.auroc) == (None, 1.0, None)


def test_real_prompts_come_first_then_sessions_then_other_sets_and_all_of_them_last():
    names = ("a_book", "agent_session_x", "quiz", "real prompts: later turns", "real prompts: first turns")
    entries = [judged(True, 0.5, False, source=name) for name in names]

    assert list(split_by_set(entries)) == [*sorted(names[3:]), "agent_session_x", "a_book", "quiz", "all"]
    assert list(split_by_set(entries[:1])) == ["a_book"]
    assert split_by_set([]) == {}
