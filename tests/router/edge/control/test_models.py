"""The list of models, in three shapes."""

import pytest

from router.contract.words import Tier
from router.edge.control.models import CurrentCatalogue
from router.sessions.clients.codex import STORED_MODELS
from tests.tools.edge import FakePlan, FakeRoad
from tests.tools.http import call
from tests.tools.values import make_target


async def test_models_come_in_three_shapes(port, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert (await call(port, "/models?client_version=0.166.0")).json == {"models": []}
    (tmp_path / "tandem" / STORED_MODELS).parent.mkdir(parents=True)
    (tmp_path / "tandem" / STORED_MODELS).write_text('{"auto": {}, "fast": {}, "deep": {}}')
    openai = await call(port, "/v1/models")
    codex = await call(port, "/models?client_version=0.166.0")
    anthropic = await call(port, "/v1/models?limit=2", headers={"anthropic-version": "2023-06-01"})

    assert openai.json["object"] == "list"
    assert {entry["slug"] for entry in codex.json["models"]} == {"auto", "fast", "deep"}
    assert (len(anthropic.json["data"]), anthropic.json["has_more"]) == (2, True)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "%C2%B2", "99999"])
async def test_a_limit_that_makes_no_sense_still_gets_a_page(port, limit):
    reply = await call(port, f"/v1/models?limit={limit}")

    assert reply.status == 200
    assert reply.json["first_id"] == "auto"


async def test_one_model_is_found_by_name_and_an_unknown_one_is_a_404(port):
    assert (await call(port, "/v1/models/deep")).json["id"] == "deep"
    missing = await call(port, "/v1/models/nope")
    assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")


async def test_a_new_plan_shows_in_the_list_of_models_at_once(road, port):
    before = await call(port, "/v1/models/deep")
    road.plan = FakePlan(targets={"sage": make_target("sage", Tier.DEEP, window_tokens=7_000)})
    after = await call(port, "/v1/models/deep")

    assert (before.json["context_window"], after.json["context_window"]) == (400_000, 7_000)


def test_a_catalogue_is_made_once_for_each_plan():
    road = FakeRoad()
    current = CurrentCatalogue(road)

    first = current()
    assert current() is first
    road.plan = FakePlan()
    assert current() is not first
