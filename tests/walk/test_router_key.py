"""The router's key in a header of its own, next to a login for a target."""

import json

import pytest
from websockets.exceptions import InvalidStatus

from router.contract.keys import make_key
from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, write_keys
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json

LOGIN = "Bearer eyJhbGciOiJub25lIn0.canary-login.of-ada"
ROUTES = {
    "/v1/chat/completions": chat(model="fast"),
    "/v1/responses": {"model": "fast", "input": "hello"},
    "/v1/responses/input_tokens": {"model": "fast", "input": "hello"},
    "/v1/messages/count_tokens": {"model": "deep", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/embeddings": {"input": "hello"},
    "/tandem/explain": chat(model="fast"),
    "/v1/models": None,
    "/v1/models?client_version=1": None,
    "/tandem/stats": None,
    "/tandem/notices": None,
    "/metrics": None,
}


@pytest.fixture
async def keyed(start, upstream, tmp_path):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    key = write_keys(tmp_path, ada="admin: true\nmay_force: [fast, deep]")["ada"]
    extra = "spill_over: false\npass_through: {embeddings: spark}\n"
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: caller,", extra=extra)
    return await start(KEYS + config), key.text


@pytest.mark.parametrize("path", ROUTES)
async def test_every_route_takes_the_key_next_to_a_login_and_refuses_the_login_alone(keyed, upstream, path):
    tandem, key = keyed

    served = await call(tandem.port, path, ROUTES[path], {"x-tandem-key": key, "authorization": LOGIN})
    seen = list(upstream.seen)
    alone = await call(tandem.port, path, ROUTES[path], {"authorization": LOGIN})
    wrong = await call(tandem.port, path, ROUTES[path], {"x-tandem-key": make_key().text, "authorization": f"Bearer {key}"})

    assert (served.status, alone.status, wrong.status) == (200, 401, 401)
    assert alone.json["error"]["message"] == wrong.json["error"]["message"].replace(
        wrong.headers["x-tandem-request-id"], alone.headers["x-tandem-request-id"]
    )
    assert upstream.seen == seen
    for request in seen:
        assert request.headers["authorization"] == LOGIN
        assert "x-tandem-key" not in request.headers
        assert key not in json.dumps(request.headers)


async def test_a_refusal_by_the_router_says_that_it_is_the_routers(keyed):
    tandem, _ = keyed

    reply = await call(tandem.port, "/v1/messages", ROUTES["/v1/messages/count_tokens"], {"authorization": LOGIN})

    assert (reply.status, reply.json["error"]["type"]) == (401, "authentication_error")
    words = reply.json["error"]["message"]
    assert words.startswith(
        "Tandem, the router between this client and its models, needs a valid key of its own, in x-tandem-key"
    )
    assert "x-api-key" not in words


async def test_a_key_that_is_repeated_is_no_key(keyed):
    tandem, key = keyed

    reply = await call(tandem.port, "/v1/models", None, {"x-tandem-key": f"{key}\r\nx-tandem-key: {key}"})

    assert reply.status == 401


async def test_a_socket_takes_the_key_with_its_handshake_and_the_login_goes_to_its_target(keyed, upstream):
    tandem, key = keyed
    upstream.scripts = [speak("chat", Speech("done"))]
    async with open_socket(tandem.port, x_tandem_key=key, authorization=LOGIN) as socket:
        await socket.ask(model="fast")
        other = {"x-tandem-key": make_key().text, "x-api-key": "from-metadata", "authorization": "from-metadata"}
        await socket.ask(model="fast", client_metadata=other)

    assert [seen.headers["authorization"] for seen in upstream.seen] == [LOGIN, LOGIN]
    assert not any("x-tandem-key" in seen.headers or "from-metadata" in str(seen.headers) for seen in upstream.seen)
    assert {entry["caller"] for entry in await tandem.entries(2)} == {"ada"}


async def test_a_socket_with_a_login_alone_is_refused(keyed):
    tandem, _ = keyed

    with pytest.raises(InvalidStatus, match="401"):
        async with open_socket(tandem.port, authorization=LOGIN):
            pass


async def test_a_router_without_keys_takes_the_header_and_passes_it_to_nobody(start, upstream, capfd):
    upstream.scripts = [speak("chat", Speech("done"))]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    key = make_key().text

    reply = await call(tandem.port, "/v1/chat/completions", chat(), {"x-tandem-key": key})
    async with open_socket(tandem.port, x_tandem_key=key) as socket:
        await socket.ask(client_metadata={"x-tandem-key": key})

    assert reply.status == 200
    assert len(upstream.seen) == 2
    assert not any(key in str(seen.headers) or key.encode() in seen.body for seen in upstream.seen)
    assert key not in "".join(capfd.readouterr())
