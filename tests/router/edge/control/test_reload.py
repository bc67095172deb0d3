"""`POST /tandem/reload`."""

import pytest

from router.contract.keys import make_key
from tests.conftest import SIMULATED
from tests.tools.http import call

PAGE = "/tandem/reload"


@pytest.fixture
async def tandem(start, tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))
    return await start(SIMULATED)


async def test_a_local_caller_may_reload_where_nobody_needs_a_key(tandem):
    reply = await call(tandem.port, PAGE, b"")

    assert reply.status == 200
    assert reply.json["changed"] == ["target simulated-deep: changed window_tokens"]
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
