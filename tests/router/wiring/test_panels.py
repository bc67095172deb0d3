"""The edge is built on the house, and every panel is on it."""

from router.wiring.build import build_plan
from router.wiring.panels import build_edge
from tests.router.wiring.test_build import OTHER, load


async def test_the_edge_is_built_on_the_house_and_follows_its_plan(built, tmp_path):
    admission, _ = build_edge(built, lambda: True)
    before = admission.limits

    built.house.swap(build_plan(load(OTHER, tmp_path), built.house.state))

    assert before.max_in_flight != 3
    assert admission.limits.max_in_flight == 3
