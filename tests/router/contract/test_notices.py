"""Who sees which trouble."""

from router.contract.notices import Notice, Trouble, visible_to

ALL = [
    Notice(kind, subject, 0.0, "x", "y")
    for kind, subject in zip(Trouble, ("spark", "sage", "ada", "bob", "ada", "", "night", "", "valkey"), strict=True)
]


def test_a_caller_sees_the_troubles_of_targets_and_of_its_own_budget_and_plan():
    assert [notice.subject for notice in visible_to("ada", ALL, is_admin=False)] == ["spark", "sage", "ada", "ada"]


def test_a_caller_with_the_name_of_a_target_does_not_see_the_budget_of_another():
    assert [notice.subject for notice in visible_to("spark", ALL, is_admin=False)] == ["spark", "sage"]


def test_an_admin_sees_all():
    assert visible_to("boss", ALL, is_admin=True) == ALL


def test_two_troubles_of_one_budget_have_the_same_place_and_those_of_a_target_of_that_name_another():
    kinds = (Trouble.BUDGET_NEAR, Trouble.BUDGET_SPENT, Trouble.TARGET_OUT, Trouble.PLAN_USED_UP)
    near, spent, target, plan = (Notice(kind, "ada", 0.0, "x", "y") for kind in kinds)

    assert near.place == spent.place
    assert len({near.place, target.place, plan.place}) == 3


def test_troubles_of_the_router_hide_no_other():
    kinds = (Trouble.LEDGER_LOSING, Trouble.POLICY_OFF, Trouble.LOOKS_WAVED_OFF, Trouble.STORE_AWAY)

    assert len({Notice(kind, "", 0.0, "x", "y").place for kind in kinds}) == len(kinds)


def test_a_hint_is_one_that_its_reader_can_follow():
    of_target, _, of_budget, of_plan = visible_to("ada", ALL, is_admin=False)

    assert of_target.hint == "ask the operator of this router"
    assert of_budget.hint == "wait until then, or ask the operator of this router for more"
    assert of_plan.hint == "wait until then"
