"""A house of the simulated config."""

import pytest

from router.wiring.build import build_house
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


@pytest.fixture
async def built(tmp_path):
    built = build_house(load_text(SIMULATED, tmp_path))
    yield built
    await built.close()
