"""The plan for requests that have both tiers on one task."""

import pytest
from msgspec.structs import replace

from router.config.load import check_config
from router.contract.caller import Caller
from router.contract.errors import NotPermitted
from router.contract.request import Overrides
from router.plan import Plan, combine
from router.wiring.build import build_house, known_names
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import two_targets
from tests.tools.values import ask

CONFIG = two_targets("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1")
ASKED = replace(ask(), overrides=Overrides(combine="plan"))


def plan_of(config: str, tmp_path) -> Plan:
    return build_house(check_config(config, "test", tmp_path, known_names()), with_ledger=False).house.plan


async def test_a_plan_with_all_of_it_off_has_nothing_of_it_in_place(tmp_path):
    plan = plan_of(CONFIG, tmp_path)

    assert plan.combiner is None
    assert not {*plan.combiners} & {*plan.rules.policies}


async def test_a_request_that_asks_for_it_gets_such_a_plan_for_itself(tmp_path):
    plan = plan_of(CONFIG, tmp_path)

    own = combine(plan, ASKED)

    assert own.combiner is not None
    assert own.rules.policies == (*plan.rules.policies, *plan.combiners)
    assert plan.combiner is None


async def test_a_plan_that_has_it_on_stays_as_it_is_and_so_does_background_work(tmp_path):
    plan = plan_of(f"combine: {{look: auto}}\n{CONFIG}", tmp_path)

    assert combine(plan, ASKED) is plan
    assert plan.for_background().combiner is plan.combiner is not None
    assert {*plan.background} <= {*plan.for_background().for_combining().rules.policies}


async def test_a_caller_without_the_right_may_ask_for_nothing_but_off(tmp_path):
    Callers(tmp_path, ann={"may_combine": False})
    plan, asked = plan_of(KEYS + CONFIG, tmp_path), replace(ASKED, caller=Caller("ann"))

    with pytest.raises(NotPermitted, match="may_combine"):
        combine(plan, asked)
    assert combine(plan, replace(asked, overrides=Overrides(combine=""))).combiner is not None
