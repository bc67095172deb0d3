"""The control plane before a fake road."""

import pytest

from tests.tools.edge import FakeRoad, running_edge


@pytest.fixture
async def road():
    return FakeRoad()


@pytest.fixture
async def port(road):
    async with running_edge(road) as (port, _):
        yield port
