"""The live picture."""

import pytest

from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing, make_key
from router.contract.rights import Rights
from router.contract.target import Quota
from tests.tools.edge import FakePlan
from tests.tools.http import call
from tests.tools.values import make_target


async def test_the_live_picture_has_every_target(road, port):
    reply = await call(port, "/tandem/stats")

    assert reply.status == 200
    assert set(reply.json["targets"]) == set(road.plan.targets)
    assert all(target["wait_seconds"] == 0.0 for target in reply.json["targets"].values())


async def test_quotas_are_shown_with_what_is_used_and_how_many_wait(road, port):
    assert (await call(port, "/tandem/stats")).json["quotas"] == {}
    road.plan = FakePlan(targets={"spark": make_target(quota=Quota(requests_per_minute=60))})

    shown = await call(port, "/tandem/stats")

    assert shown.json["quotas"]["spark"]["requests_per_minute"] == {"used": 0, "limit": 60}
    assert shown.json["quotas"]["spark"]["waiting"] == 0


@pytest.fixture
def callers(road):
    """Two callers with keys, one of them an admin. What each sends."""
    keys = {name: make_key() for name in ("ada", "boss")}
    rights = {"ada": Rights(requests_per_minute=9), "boss": Rights(is_admin=True)}
    ring = KeyRing([Key(key.id, Caller(name), key.digest) for name, key in keys.items()], rights)
    road.plan = FakePlan(keys=ring, tells_callers_apart=True)
    road.state.budgets = Purses()
    return {name: {"x-api-key": key.text} for name, key in keys.items()}


class Purses:
    """Budgets that say what is left of them."""

    def picture(self, caller):
        return {"day": {"spent_usd": 1.5, "of": caller}}


async def test_a_caller_sees_its_own_use_and_the_state_of_targets_and_nothing_of_others(road, port, callers):
    shown = (await call(port, "/tandem/stats", headers=callers["ada"])).json

    assert shown["caller"] == "ada"
    assert shown["rights"] == {"tiers": ["deep", "fast"], "may_force": ["fast"], "admin": False, "may_delegate": True}
    assert shown["limits"] == {"requests_per_minute": {"used": 0, "limit": 9, "left": 9}}
    assert shown["budget"] == {"day": {"spent_usd": 1.5, "of": "ada"}}
    assert set(shown) == {"caller", "rights", "in_flight", "limits", "budget", "targets", "jobs"}
    assert set(shown["targets"]) == set(road.plan.targets)
    assert not {"in_flight", "limits", "callers_with_limits"} & set(shown["targets"]["spark"])


async def test_an_admin_sees_the_use_of_every_caller(port, callers):
    shown = (await call(port, "/tandem/stats", headers=callers["boss"])).json

    assert set(shown) == {"targets", "quotas", "callers", "jobs"}
    assert set(shown["callers"]) == {"ada", "boss"}
    assert shown["callers"]["ada"]["limits"] == {"requests_per_minute": {"used": 0, "limit": 9, "left": 9}}
    assert shown["targets"]["spark"]["in_flight"] == 0


async def test_where_keys_are_needed_nobody_sees_figures_without_one(port, callers):
    assert (await call(port, "/tandem/stats")).status == 401
