"""What `combine` would have done with past turns."""

import pytest

from router.contract.combine import LookWhen
from router.contract.words import Tier
from router.decide.choose import decide
from router.decide.opinions import Rules
from router.decide.yardstick import Took
from router.past.cases import Case, RegretSign, Work
from router.past.combined import UNKNOWN_QUALITY, LookReport, PlanReport
from tests.tools.exchanges import ECONOMICS, make_decision
from tests.tools.values import PRICE, ask, make_signals, make_target, stand

FAST, DEEP = (make_decision(tier, (name,)) for tier, name in ((Tier.FAST, "spark"), (Tier.DEEP, "sage")))
TOOK = {Tier.FAST: Took(2.0, 0.01), Tier.DEEP: Took(10.0, 0.05)}


def case(session: str = "s", calls: int = 3, **more) -> Case:
    return Case(session, "codex", 1.0, work=Work(calls, 800), **{"edits": 1, "is_planning": False, **more})


def planned(*turns) -> PlanReport:
    report = PlanReport()
    for one, decision in turns:
        report.add(one, decision, TOOK)
    return report


def test_planning_goes_to_deep_and_the_work_after_it_to_fast():
    report = planned((case(is_planning=True), FAST), (case(), DEEP), (case(), DEEP))

    assert (report.planned, report.boundaries, report.moved) == (1, 1, 2)
    assert (report.hops_before, report.hops_after) == (1, 2)
    assert (report.before.seconds, report.after.seconds) == (22.0, 22.0)
    assert report.after.usd == pytest.approx(0.11)
    assert report.as_json()["quality"] == UNKNOWN_QUALITY


def test_a_plan_that_is_planned_again_or_followed_by_words_alone_is_no_boundary():
    again = planned((case(is_planning=True), DEEP), (case(is_planning=True), DEEP))
    words = planned((case(is_planning=True), DEEP), (case(calls=1, edits=0), DEEP))

    assert (again.boundaries, again.planned, words.boundaries, words.moved) == (0, 2, 0, 0)


def test_sessions_and_callers_are_told_apart():
    report = planned((case("a", is_planning=True), DEEP), (case("b"), DEEP), (case("a", caller="bob"), DEEP))

    assert (report.boundaries, report.hops_after) == (0, 0)


def test_a_tier_that_was_asked_for_stays():
    asked = make_decision(Tier.FAST, was_asked_for=True)

    report = planned((case(is_planning=True), asked))

    assert (report.planned, report.moved) == (1, 0)


def test_what_is_not_recorded_or_cannot_be_served_is_counted_apart():
    report = planned((case(is_planning=None), FAST), (case(), None))

    assert (report.turns, report.unknown, report.unservable) == (1, 1, 1)


def looked(*cases: Case, deep_price=PRICE, max_seconds: float = 20.0) -> LookReport:
    statuses = [stand(make_target()), stand(make_target("sage", Tier.DEEP, price=deep_price))]
    view, rules = ask(), Rules((), ECONOMICS, True, "")
    decision = decide(rules, view, make_signals(*statuses))
    assert decision.tier is Tier.FAST
    report = LookReport(max_seconds)
    for one in cases:
        report.add(one, decision)
    return report


def test_turns_on_fast_with_edits_are_looked_at_and_with_auto_only_larger_ones():
    report = looked(case(edits=0), case(edits=1), case(edits=3), case(edits=3, regrets=(RegretSign.INTERRUPTED,)))

    assert (report.turns, report.on_fast, report.edited) == (4, 4, 2)
    assert report.looks == {LookWhen.AUTO: 1, LookWhen.ALWAYS: 2}
    assert 0 < report.sums[LookWhen.AUTO].seconds < report.sums[LookWhen.ALWAYS].seconds
    assert report.sums[LookWhen.ALWAYS].usd > 0
    assert report.as_json()["quality"] == UNKNOWN_QUALITY


def test_a_look_never_holds_an_answer_longer_than_its_limit():
    report = looked(case(edits=4), max_seconds=0.5)

    assert (report.late, report.sums[LookWhen.ALWAYS].seconds) == (1, 0.5)


def test_without_a_price_the_money_is_not_known():
    assert looked(case(edits=4), deep_price=None).sums[LookWhen.ALWAYS].usd is None


def test_what_deep_did_is_not_looked_at():
    report = LookReport(20.0)
    report.add(case(edits=9), DEEP)

    assert (report.turns, report.on_fast, report.looks[LookWhen.ALWAYS]) == (1, 0, 0)
