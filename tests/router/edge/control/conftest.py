"""The control plane before a fake road."""

import pytest

from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing, make_key
from router.contract.rights import Rights
from tests.tools.edge import FakePlan, FakeRoad, running_edge


@pytest.fixture
async def road():
    return FakeRoad()


@pytest.fixture
async def port(road):
    async with running_edge(road) as (port, _):
        yield port


class FakeBudgets:
    """Budgets that say what is left of them."""

    def picture(self, caller):
        return {"day": {"spent_usd": 1.5, "of": caller}}


@pytest.fixture
def callers(road):
    """Two callers with keys, one of them an admin. What each sends."""
    keys = {name: make_key() for name in ("ada", "boss")}
    rights = {"ada": Rights(requests_per_minute=9), "boss": Rights(is_admin=True)}
    ring = KeyRing([Key(key.id, Caller(name), key.digest) for name, key in keys.items()], rights)
    road.plan = FakePlan(keys=ring)
    road.state.budgets = FakeBudgets()
    return {name: {"x-api-key": key.text} for name, key in keys.items()}
