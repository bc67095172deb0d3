"""Who sees which trouble."""

from router.contract.notices import Notice, Trouble, visible_to

ALL = [
    Notice(kind, subject, 0.0, "x", "y")
    for kind, subject in zip(Trouble, ("spark", "sage", "ada", "bob", "", "night", "valkey"), strict=True)
]


def test_a_caller_sees_the_troubles_of_targets_and_of_its_own_budget():
    assert [notice.subject for notice in visible_to("ada", ALL, is_admin=False)] == ["spark", "sage", "ada"]


def test_a_caller_with_the_name_of_a_target_does_not_see_the_budget_of_another():
    assert [notice.subject for notice in visible_to("spark", ALL, is_admin=False)] == ["spark", "sage"]


def test_an_admin_sees_all():
    assert visible_to("boss", ALL, is_admin=True) == ALL


def test_two_troubles_of_one_budget_have_the_same_place_and_those_of_a_target_of_that_name_another():
    near, spent, target = (
        Notice(kind, "ada", 0.0, "x", "y") for kind in (Trouble.BUDGET_NEAR, Trouble.BUDGET_SPENT, Trouble.TARGET_OUT)
    )

    assert near.place == spent.place
    assert near.place != target.place


def test_a_hint_is_one_that_its_reader_can_follow():
    of_target, _, of_budget = visible_to("ada", ALL, is_admin=False)

    assert of_target.hint == "ask the operator of this router"
    assert of_budget.hint == "wait until then, or ask the operator of this router for more"
