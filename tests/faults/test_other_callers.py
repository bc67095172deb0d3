"""Another caller's things are not found, by any route that takes an id, over plain sockets."""

import json

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers
from tests.tools.sockets import open_socket

RESPONSES = "/v1/responses"
SECRET = "the canary of ada"
SESSION = {"x-tandem-session": "shared-name"}


@pytest.fixture
async def callers(tmp_path):
    return Callers(tmp_path, ada={"may_force": ["fast", "deep"]}, bob={"may_force": ["fast", "deep"]}, boss={"admin": True})


@pytest.fixture
async def tandem(start, callers):
    return await start(SIMULATED + KEYS)


@pytest.fixture
async def stored(tandem, callers) -> dict:
    """A response kept for ada."""
    reply = await call(tandem.port, RESPONSES, {"model": "auto", "input": SECRET, "store": True}, callers["ada"])
    assert reply.status == 200
    return {**reply.json, "request_id": reply.headers["x-tandem-request-id"]}


DECISION = "/tandem/decisions/{request_id}"
KEPT = [
    ("GET", "/v1/responses/{id}"),
    ("GET", "/v1/responses/{id}/input_items"),
    ("POST", "/v1/responses/{id}/cancel"),
    ("DELETE", "/v1/responses/{id}"),
    ("GET", "/responses/{id}"),
]


@pytest.mark.parametrize(
    ("who", "method", "path"), [*(("bob", *kept) for kept in (*KEPT, ("GET", DECISION))), *(("boss", *kept) for kept in KEPT)]
)
async def test_what_is_kept_for_one_caller_is_not_found_by_another_and_stays(tandem, callers, stored, who, method, path):
    await tandem.entries(1)
    path, body = path.format(**stored), b"{}" if method == "POST" else None

    other = await call(tandem.port, path, body, callers[who], method)
    nobody = await call(tandem.port, path, body, method=method)
    unknown = await call(tandem.port, path.replace(stored["id"], "resp_0"), body, callers[who], method)
    own = await call(tandem.port, f"/v1/responses/{stored['id']}", headers=callers["ada"])

    assert (other.status, nobody.status) == (404, 401)
    assert SECRET.encode() not in other.body + nobody.body
    if stored["id"] in path:
        mask = {stored["id"]: "ID", "resp_0": "ID"}
        assert say(other, mask) == say(unknown, mask)
    assert own.status == 200


def say(reply, mask: dict[str, str]) -> str:
    """A refusal's words without the ids."""
    words = reply.json["error"]["message"].partition(" (request")[0]
    for name, masked in mask.items():
        words = words.replace(name, masked)
    return words


async def test_an_admin_sees_the_decision_of_another_without_what_was_typed(tandem, callers, stored):
    await tandem.entries(1)

    seen = await call(tandem.port, DECISION.format(**stored), headers=callers["boss"])

    assert (seen.status, seen.json["tier"] is None) == (200, False)
    assert SECRET.encode() not in seen.body


async def test_ones_own_decision_and_response_are_found(tandem, callers, stored):
    await tandem.entries(1)

    decision = await call(tandem.port, f"/tandem/decisions/{stored['request_id']}", headers=callers["ada"])
    items = await call(tandem.port, f"/v1/responses/{stored['id']}/input_items", headers=callers["ada"])
    deleted = await call(tandem.port, f"/v1/responses/{stored['id']}", None, callers["ada"], "DELETE")

    assert (decision.status, items.status, deleted.status) == (200, 200, 200)
    assert SECRET in json.dumps(items.json)


async def test_another_caller_cannot_go_on_from_a_response_nor_name_its_items(tandem, callers, stored):
    item = {"type": "item_reference", "id": stored["output"][0]["id"]}
    words = {"role": "user", "content": "go on"}
    asked = {
        "response": {"model": "auto", "input": "go on", "previous_response_id": stored["id"]},
        "item": {"model": "auto", "input": [item, words]},
    }

    others = {kind: await call(tandem.port, RESPONSES, body, callers["bob"]) for kind, body in asked.items()}
    explained = await call(tandem.port, "/tandem/explain?dialect=responses", asked["response"], callers["bob"])
    own = {kind: await call(tandem.port, RESPONSES, body, callers["ada"]) for kind, body in asked.items()}

    assert {kind: reply.json["error"]["code"] for kind, reply in others.items()} == {
        "response": "previous_response_not_found",
        "item": "item_not_found",
    }
    assert explained.json["error"]["code"] == "previous_response_not_found"
    assert {reply.status for reply in own.values()} == {200}


async def test_another_caller_cannot_go_on_from_a_response_of_ones_socket(tandem, callers):
    async with open_socket(tandem.port, **callers["ada"]) as socket:
        made = await socket.ask(SECRET)
        other = await call(
            tandem.port, RESPONSES, {"model": "auto", "input": "x", "previous_response_id": made["id"]}, callers["bob"]
        )
        async with open_socket(tandem.port, **callers["bob"]) as another:
            await another.say("x", previous_response_id=made["id"])
            refused = await another.answer()

    assert other.json["error"]["code"] == refused["error"]["code"] == "previous_response_not_found"


async def test_an_idempotency_key_belongs_to_its_caller(tandem, callers):
    again = {"idempotency-key": "the-same"}

    first = await call(tandem.port, "/v1/chat/completions", chat(SECRET), callers["ada"] | again)
    other = await call(tandem.port, "/v1/chat/completions", chat("another"), callers["bob"] | again)
    same = await call(tandem.port, "/v1/chat/completions", chat(SECRET), callers["bob"] | {"idempotency-key": "the-same-2"})
    own = await call(tandem.port, "/v1/chat/completions", chat(SECRET), callers["ada"] | again)

    assert (first.status, other.status) == (200, 200)
    assert "x-tandem-replayed" not in other.headers | same.headers
    assert own.headers["x-tandem-replayed"] == "true"


async def test_a_session_of_the_same_name_is_another_session(tandem, callers):
    keep = SESSION | {"x-tandem-tier": "deep", "x-tandem-scope": "session"}

    await call(tandem.port, "/v1/chat/completions", chat(), callers["ada"] | keep)
    ada = await call(tandem.port, "/v1/chat/completions", chat(), callers["ada"] | SESSION)
    bob = await call(tandem.port, "/v1/chat/completions", chat(), callers["bob"] | SESSION)

    assert (ada.headers["x-tandem-tier"], bob.headers["x-tandem-tier"]) == ("deep", "fast")


async def test_figures_of_all_callers_are_for_admins_and_loopback_is_not_trusted(tandem, callers, stored):
    own = await call(tandem.port, "/tandem/stats", headers=callers["bob"])
    all_of_them = await call(tandem.port, "/tandem/stats", headers=callers["boss"])
    nobody = await call(tandem.port, "/tandem/stats")

    assert (own.status, all_of_them.status, nobody.status) == (200, 200, 401)
    assert "ada" not in json.dumps(own.json)
    assert own.json["caller"] == "bob"
    assert set(all_of_them.json["callers"]) == {"ada", "bob", "boss"}


async def test_two_callers_are_two_rows_by_name(tandem, callers):
    for name in ("ada", "bob"):
        await call(tandem.port, "/v1/chat/completions", chat(), callers[name])

    rows = await tandem.entries(2)

    assert [row["caller"] for row in rows] == ["ada", "bob"]
