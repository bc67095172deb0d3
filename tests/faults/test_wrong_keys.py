"""Invalid keys: callers learn the same whatever is wrong, and cannot try many."""

import re

import pytest
from msgspec.structs import replace

from router.contract.keys import KeyRing, make_key
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS
from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes
from tests.tools.keyed import KEYS, write_keys
from tests.tools.raw import Caller
from tests.tools.sockets import open_socket
from tests.tools.waiting import until

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
UPGRADE = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
WAYS = {"hot": False, "handed over": True}
ODD = {
    "quotes": "Bearer \"'; DROP TABLE entries; --",
    "percent": "Bearer %s%n%00%2e%2e%2f",
    "emoji": "Bearer tdm_🔑🔑🔑🔑🔑🔑🔑🔑_🔑".encode().decode("latin-1"),
    "1 MiB": f"Bearer {'k' * (1 << 20)}",
    "two": "{ada}\r\nauthorization: {ada}",
    "none of Tandem's": "Bearer sk-proj-0123456789",
}


@pytest.fixture
async def tandem(start, tmp_path):
    """A router with keys: `ada`'s, and an expired one."""
    keys = write_keys(tmp_path, ada="", expired="")
    tandem = await start(SIMULATED + KEYS + "limits: {max_header_bytes: 2000000}\n")
    tandem.keys = keys
    return tandem


def wrong_keys(tandem) -> dict[str, dict[str, str]]:
    ada, expired = tandem.keys["ada"], tandem.keys["expired"]
    return {
        "none": {},
        "empty": {"authorization": "Bearer "},
        "malformed": {"authorization": f"Bearer {ada.text[:-1]}"},
        "unknown": {"authorization": f"Bearer {make_key().text}"},
        "wrong secret": {"x-api-key": make_key(ada.id).text},
        "expired": {"authorization": f"Bearer {expired.text}"},
    }


def without_id(reply) -> tuple:
    """A refusal without the request's id and time."""
    request_id = reply.headers["x-tandem-request-id"]
    headers = {name: value.replace(request_id, "ID") for name, value in reply.headers.items() if name != "date"}
    return reply.status, sorted(headers.items()), reply.body.replace(request_id.encode(), b"ID")


async def ask(tandem, path, headers, *, by_shim=False):
    async with Caller(tandem.port, by_shim=by_shim) as caller:
        await caller.send(request_bytes(path, chat(), headers))
        return await caller.reply()


async def shake_hands(tandem, headers):
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes("/v1/responses", None, {**UPGRADE, **headers}))
        return await caller.reply()


@pytest.mark.parametrize("dialect", Dialect)
async def test_every_wrong_key_gets_the_same_401_on_both_ways_in(tandem, dialect):
    path = f"/v1{SPECS[dialect].paths[Operation.CREATE]}"

    for by_shim in WAYS.values():
        replies = {kind: await ask(tandem, path, key, by_shim=by_shim) for kind, key in wrong_keys(tandem).items()}

        assert {reply.status for reply in replies.values()} == {401}
        assert len({str(without_id(reply)) for reply in replies.values()}) == 1, replies
    reply = replies["none"]
    assert reply.json["error"]["type"] == "authentication_error"
    assert ("type" in reply.json) is (dialect is Dialect.MESSAGES)
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.headers["x-should-retry"] == "false"


async def test_every_wrong_key_gets_the_same_401_on_a_handshake_as_over_http(tandem):
    posted = await ask(tandem, "/v1/responses", {})

    replies = {kind: await shake_hands(tandem, key) for kind, key in wrong_keys(tandem).items()}

    assert {str(without_id(reply)) for reply in replies.values()} == {str(without_id(posted))}


async def test_a_key_that_was_revoked_gets_the_same_401_as_one_that_never_was(tandem):
    ada = {"authorization": f"Bearer {tandem.keys['ada'].text}"}
    assert (await ask(tandem, CHAT, ada)).status == 200

    tandem.house.swap(replace(tandem.house.plan, keys=KeyRing([], {})))

    revoked, unknown = await ask(tandem, CHAT, ada), await ask(tandem, CHAT, {"x-api-key": make_key().text})
    assert revoked.status == 401
    assert without_id(revoked) == without_id(unknown)


@pytest.mark.parametrize("kind", ODD)
async def test_an_odd_key_is_a_wrong_key(tandem, kind):
    unknown = await ask(tandem, CHAT, {"x-api-key": make_key().text})
    header = {"authorization": ODD[kind].replace("{ada}", f"Bearer {tandem.keys['ada'].text}")}

    replies = [await ask(tandem, CHAT, header, by_shim=by_shim) for by_shim in WAYS.values()]
    replies.append(await shake_hands(tandem, header))

    assert without_id(replies[0]) == without_id(replies[1]) == without_id(unknown)
    assert replies[2].status == 401


async def test_a_key_that_is_no_header_is_refused_before_it_is_read(tandem, start, tmp_path):
    nul = await ask(tandem, CHAT, {"authorization": "Bearer tdm_\0"})
    (tmp_path / "other").mkdir()
    usual = await start(SIMULATED, tmp_path / "other")
    large = await ask(usual, CHAT, {"authorization": ODD["1 MiB"]})

    assert (nul.status, nul.json["error"]["code"]) == (400, "invalid_request")
    assert (large.status, large.json["error"]["code"]) == (431, "headers_too_large")


async def test_after_20_wrong_keys_an_address_is_told_to_wait_and_a_valid_key_is_not(tandem, listen):
    read_log = listen()
    ada, wrong = {"authorization": f"Bearer {tandem.keys['ada'].text}"}, {"x-api-key": make_key().text}
    for _ in range(5):
        assert (await call(tandem.port, CHAT, chat())).status == 401

    first = [(await call(tandem.port, path, chat() if path == CHAT else None, wrong)).status for path in (CHAT, MODELS) * 10]
    over = [await call(tandem.port, CHAT, chat(), wrong), await call(tandem.port, MODELS, headers=wrong)]
    over += [
        await shake_hands(tandem, wrong),
        await ask(tandem, CHAT, wrong, by_shim=True),
        await call(tandem.port, CHAT, chat()),
    ]

    assert set(first) == {401}
    assert {(reply.status, reply.json["error"]["code"]) for reply in over} == {(429, "rate_limited")}
    assert all(1 <= int(reply.headers["retry-after"]) <= 60 for reply in over)
    assert [(await call(tandem.port, CHAT, chat(), ada)).status, (await call(tandem.port, MODELS, headers=ada)).status] == [
        200
    ] * 2
    assert (await call(tandem.port, "/healthz")).status == 200
    refused = [event for event in read_log() if event["event"] == "key.refused"]
    assert [event["key"] for event in refused] == [wrong["x-api-key"][4:12]] * 20


async def test_the_log_has_the_id_of_a_refused_key_and_nothing_else_of_it(tandem, listen):
    read_log = listen()
    unknown = make_key()
    for token in (unknown.text, f"{unknown.text}x", "sk-proj-canary"):
        await call(tandem.port, CHAT, chat(), {"authorization": f"Bearer {token}"})
    await call(tandem.port, CHAT, chat())

    log = read_log()
    refused = [(event.get("key"), event["reason"]) for event in log if event["event"] == "key.refused"]
    other = "not a key of Tandem"
    assert refused == [(unknown.id, "not in the key file"), (None, other), (None, other)]
    assert not re.search(f"{re.escape(unknown.text[13:])}|canary", str(log))


async def test_a_key_that_expires_ends_an_open_socket_and_a_kept_connection_with_their_next_request(tandem, monkeypatch):
    key = tandem.keys["ada"]
    ring = tandem.house.plan.keys
    now = [1_000.0]
    for module in ("router.edge.callers", "router.contract.keys"):
        monkeypatch.setattr(f"{module}.time", type("Clock", (), {"time": staticmethod(lambda: now[0])}))
    aging = KeyRing([replace_expiry(ring.find(key.text, 0.0), 2_000.0)], ring.rights)
    tandem.house.swap(replace(tandem.house.plan, keys=aging))
    header = {"authorization": f"Bearer {key.text}"}

    async with open_socket(tandem.port, **header) as socket, Caller(tandem.port) as caller:
        await socket.ask()
        await caller.send(request_bytes(CHAT, chat(), header))
        served = await caller.reply()
        now[0] = 2_000.0
        await socket.say()
        told = await socket.answer()
        await caller.send(request_bytes(CHAT, chat(), header))
        refused = await caller.reply()

    assert (served.status, refused.status) == (200, 401)
    assert (told["type"], told["status"], told["error"]["code"]) == ("error", 401, "unauthorized")
    await until(lambda: not tandem.house.state.running)


def replace_expiry(key, expires_at):
    return type(key)(key.id, key.caller, key.digest, expires_at)


async def test_the_metadata_of_a_socket_request_brings_no_other_key(tandem):
    header = {"authorization": f"Bearer {tandem.keys['ada'].text}"}

    async with open_socket(tandem.port, **header) as socket:
        await socket.ask(client_metadata={"x-api-key": tandem.keys["expired"].text})

    (entry,) = await tandem.entries(1)
    assert entry["caller"] == "ada"
