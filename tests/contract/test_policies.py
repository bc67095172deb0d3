"""What every policy must hold to, ours and those of operators. Nobody edits this to let a newcomer in."""

import pytest

from router.contract.words import Dialect
from router.wiring.own_policies import find_breaches
from router.wiring.registry import POLICIES
from tests.tools.values import ask, make_signals, make_view

VIEWS = [
    ask("implement it all", headers={"x-tandem-tier": "deep"}),
    make_view({"input": []} | {"previous_response_id": "r"}, Dialect.RESPONSES),
    make_view({"prompt": "def f("}, Dialect.COMPLETIONS),
]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_it_holds_to_the_contract(policy):
    assert list(find_breaches(policy)) == []


@pytest.mark.parametrize("view", VIEWS, ids=("overridden", "responses", "completions"))
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_it_judges_what_every_dialect_brings(policy, view):
    assert isinstance(policy(policy.Config()).judge(view, make_signals()), tuple)


def test_a_policy_is_registered_by_its_own_name():
    assert all(policy.name == name for name, policy in POLICIES.items())
