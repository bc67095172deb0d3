"""Probes."""

import pytest

from tests.tools.edge import FakeRoad, running_edge
from tests.tools.http import call


@pytest.mark.parametrize("path", ["/", "/api/hello"])
async def test_probes_of_clients_are_answered(port, path):
    assert (await call(port, path, method="HEAD")).status == 200
    assert (await call(port, path)).status == 200


async def test_readiness_ends_when_the_router_is_shutting_down():
    is_ready = True
    async with running_edge(FakeRoad(), lambda: is_ready) as (port, _):
        ready = await call(port, "/readyz")
        is_ready = False
        stopping = await call(port, "/readyz")
        alive = await call(port, "/healthz")

    assert (ready.status, stopping.status, alive.status) == (200, 503, 200)
