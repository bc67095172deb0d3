"""The live picture."""

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
