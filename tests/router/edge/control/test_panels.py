"""The list of models, notices and reload."""

import pytest

from router.contract.keys import make_key
from router.contract.notices import Notice, Trouble
from router.contract.words import Tier
from router.edge.control.panels import CurrentCatalogue
from router.sessions.clients.codex import STORED_MODELS
from tests.conftest import SIMULATED
from tests.tools.edge import FakePlan, FakeRoad, running_edge
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


KEY = Notice(Trouble.KEY_REFUSED, "spark", 100.0, "spark: its host refuses the API key", "tandem check --live")
BUDGETS = [Notice(Trouble.BUDGET_SPENT, name, 200.0, f"{name}: spent", "ask") for name in ("ada", "bob")]
LEDGER = Notice(Trouble.LEDGER_LOSING, "", 300.0, "the ledger loses rows", "tandem check --live")


@pytest.fixture
async def port(road):
    async with running_edge(road, notices=lambda: [KEY, *BUDGETS, LEDGER]) as (port, _):
        yield port


async def test_a_trouble_is_listed_with_its_text_and_a_hint(port):
    reply = await call(port, "/tandem/notices")

    assert reply.json["notices"][0] == {
        "kind": "key_refused",
        "subject": "spark",
        "since": 100.0,
        "text": "spark: its host refuses the API key",
        "hint": "tandem check --live",
    }
    assert len(reply.json["notices"]) == 4


async def test_a_caller_sees_targets_and_its_own_budget_and_an_admin_all(port, callers):
    own, whole = [
        [notice["subject"] for notice in (await call(port, "/tandem/notices", headers=callers[name])).json["notices"]]
        for name in ("ada", "boss")
    ]

    assert own == ["spark", "ada"]
    assert whole == ["spark", "ada", "bob", ""]


async def test_where_keys_are_needed_nobody_sees_it_without_one(port, callers):
    assert (await call(port, "/tandem/notices")).status == 401


PAGE = "/tandem/reload"


@pytest.fixture
async def tandem(start, tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))
    return await start(SIMULATED)


async def test_a_local_caller_may_reload_where_nobody_needs_a_key(tandem):
    reply = await call(tandem.port, PAGE, b"")

    assert reply.status == 200
    assert reply.json["changed"] == ["tiers.deep (simulated-deep)"]
    assert (reply.json["needs_restart"], reply.json["warnings"]) == ([], [])
    assert reply.json["fingerprint"]["after"] == tandem.house.plan.rules.config_fingerprint


async def test_faults_are_listed_and_nothing_changes(tandem, tmp_path):
    plan = tandem.house.plan
    (tmp_path / "config.yaml").write_text("server: {prot: 1}\n")

    reply = await call(tandem.port, PAGE, b"")

    assert (reply.status, reply.json["error"]["code"]) == (422, "config_faulty")
    assert [fault["path"] for fault in reply.json["error"]["faults"]] == ["server.prot", "tiers"]
    assert reply.json["error"]["request_id"] == reply.headers["x-tandem-request-id"]
    assert tandem.house.plan is plan


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_another_web_page_cannot_reload(tandem, headers, status):
    plan = tandem.house.plan

    assert (await call(tandem.port, PAGE, b"", headers)).status == status
    assert tandem.house.plan is plan


async def test_reading_the_page_reloads_nothing(tandem):
    assert (await call(tandem.port, PAGE)).status == 405


async def test_with_keys_only_an_admin_and_the_routers_own_user_may_reload(start, tmp_path):
    made = {"ada": make_key(), "root": make_key()}
    lines = [
        f"  {name}: {{admin: {str(name == 'root').lower()},"
        f" keys: [{{id: '{key.id}', sha256: {key.digest.hex()}, created: 2026-01-01T00:00:00Z}}]}}"
        for name, key in made.items()
    ]
    (tmp_path / "keys.yaml").write_text("\n".join(["callers:", *lines]))
    (tmp_path / "keys.yaml").chmod(0o600)
    text = f"keys: {{file: keys.yaml}}\n{SIMULATED}"
    (tmp_path / "config.yaml").write_text(text)
    tandem = await start(text)
    tokens = {"": 401, made["ada"].text: 403, made["root"].text: 200, tandem.built.own_key: 200}

    found = {token: (await call(tandem.port, PAGE, b"", {"authorization": f"Bearer {token}"})).status for token in tokens}

    assert found == tokens


async def test_it_is_answered_while_every_slot_is_taken(tandem):
    tandem.admission.in_flight = tandem.admission.limits.max_in_flight
    try:
        assert (await call(tandem.port, PAGE, b"")).status == 200
    finally:
        tandem.admission.in_flight = 0
