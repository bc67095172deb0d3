"""A caller's key in every place of a request, over TLS: kept, logged, shown and sent on nowhere."""

import json
import warnings

import pytest

from adapters.litellm_library import begin_loading
from tests.conftest import SIMULATED
from tests.tools.certificates import TLS, client_context, write_pair
from tests.tools.http import call
from tests.tools.keyed import KEYS, write_keys
from tests.tools.running import running, two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json

WAYS = 3
"""Headers in which a key may come."""
PROMPT = "fix the typo canary-in-the-prompt"
ROUTES = {
    "chat": ("/v1/chat/completions", {"model": "auto", "messages": [{"role": "user", "content": PROMPT}]}),
    "responses": ("/v1/responses", {"model": "auto", "input": PROMPT, "store": False}),
    "messages": ("/v1/messages", {"model": "auto", "max_tokens": 99, "messages": [{"role": "user", "content": PROMPT}]}),
}
HEADERS = (
    "cookie x-goog-api-key api-key user-agent x-made-up x-request-id openai-organization openai-beta anthropic-beta traceparent"
    " referer proxy-authorization x-forwarded-for x-session-id session-id thread-id x-tandem-session x-codex-turn-metadata"
    " x-codex-window-id x-claude-code-session-id idempotency-key"
).split()
REFUSED_HEADERS = (
    "x-tandem-tier",
    "x-tandem-made-up",
    "x-tandem-max-wait",
    "origin",
    "content-encoding",
    "x-tandem-upstream-key",
)
FIELDS = ("user", "safety_identifier", "prompt_cache_key", "session_id")
REFUSED_FIELDS = ("model", "stream", "temperature", "previous_response_id", "service_tier", "conversation")
PATHS = (
    "/v1/{}",
    "/{}/v1/models",
    "/v1/models/{}",
    "/v1/responses/{}",
    "/tandem/decisions/{}",
    "/v1/models?after={}",
    "/tandem/{}",
    "/v1/embeddings?k={}",
)


def config_for(adapter: str, url: str, extra: str = "") -> str:
    if adapter == "simulated":
        return KEYS + TLS + SIMULATED + extra
    config = two_targets(url, url, extra=extra, fast_extra="api_key: caller,", deep_extra="api_key: key-of-the-operator,")
    config = config.replace("dialect: chat", f"dialect: {adapter}") if adapter in ROUTES else config
    if adapter == "messages":
        config = config.replace("openai_http", "anthropic_http").replace(url, url.removesuffix("/v1"))
    if adapter == "litellm":
        config = config.replace("adapter: openai_http", "adapter: litellm").replace("model: ", "model: openai/")
    return KEYS + TLS + config


class Hunt:
    def __init__(self, tandem, key: str) -> None:
        self.tandem, self.key, self.secret, self.answers = tandem, key, key.split("_", 2)[-1], []

    async def send(self, path, body=None, headers=(), *, method=None):
        """Send a request with the key in its right place, once in each of the headers for it."""
        for way in ({"authorization": f"Bearer {self.key}"}, {"x-api-key": self.key}, {"x-tandem-key": self.key}):
            named = {**way, "x-tandem-upstream-key": "key-of-ada-for-the-target", **dict(headers)}
            self.answers.append(await call(self.tandem.port, path, body, named, method, tls=client_context()))
        return self.answers[-1]

    def holds(self, text: str | bytes) -> bool:
        """Whether a text has the secret, or enough of it to guess the rest, in any case."""
        raw = text.encode() if isinstance(text, str) else text
        return self.secret[:16].lower().encode() in raw.lower()

    def kept(self) -> list[str]:
        found = [path for path in self.tandem.loaded.folder.rglob("*") if path.is_file()]
        return [path.name for path in found if self.holds(path.read_bytes())]

    def shown(self) -> list[bytes]:
        """Answers that show the secret in a header or error."""
        return [
            answer.body
            for answer in self.answers
            if self.holds(json.dumps(answer.headers)) or (answer.status >= 400 and self.holds(answer.body))
        ]


@pytest.fixture
async def hunt(upstream, tmp_path, request):
    """For each adapter. Log and files are searched after the stop."""
    adapter = request.param
    dialect = adapter if adapter in ROUTES else "chat"
    upstream.scripts = [speak(dialect, Speech("done"))]
    if adapter == "litellm":  # loading it takes longer than a request may
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin_loading().result(60)
    key = write_keys(tmp_path, ada="may_force: [fast, deep]")["ada"]
    write_pair(tmp_path)
    async with running(config_for(adapter, upstream.base_url), tmp_path) as tandem:
        yield Hunt(tandem, key.text)


def every_adapter(*adapters):
    return pytest.mark.parametrize("hunt", adapters, indirect=True)


@every_adapter("chat", "responses", "messages", "litellm", "simulated")
async def test_a_key_where_it_belongs_and_in_every_other_header_reaches_no_target_file_or_log(hunt, upstream, capfd):
    everywhere = {name: f"{name} {hunt.key}" for name in HEADERS}

    for number, (path, body) in enumerate(ROUTES.values()):
        for model in ("fast", "deep"):
            everywhere["idempotency-key"] = f"{number}{model}{hunt.key}"
            answer = await hunt.send(path, {**body, "model": model}, everywhere)
            assert answer.status == 200, answer.body
            await hunt.send(path, {**body, "model": model, "stream": True}, {**everywhere, "idempotency-key": f"s{hunt.key}"})

    entries = await hunt.tandem.entries(6 * WAYS)
    assert {entry["caller"] for entry in entries} == {"ada"}
    assert hunt.kept() == hunt.shown() == []
    log = "".join(capfd.readouterr())
    assert not hunt.holds(log)
    assert not hunt.holds(json.dumps([[seen.path, seen.headers] for seen in upstream.seen]))
    assert not any(hunt.holds(seen.body) for seen in upstream.seen)
    assert "canary-in-the-prompt" not in log + json.dumps(entries, default=str)
    assert "canary-in-the-prompt" not in json.dumps([answer.headers for answer in hunt.answers])


@every_adapter("chat")
async def test_only_the_header_for_it_brings_a_key_to_a_target_that_takes_one(hunt, upstream):
    path, body = ROUTES["chat"]

    await hunt.send(path, {**body, "model": "fast"})
    without = await hunt.send(path, {**body, "model": "fast"}, {"x-tandem-upstream-key": "none"})
    refused = await call(
        hunt.tandem.port, path, {**body, "model": "fast"}, {"authorization": f"Bearer {hunt.key}"}, tls=client_context()
    )

    sent = [seen.headers["authorization"] for seen in upstream.seen]
    assert sent == [*["Bearer key-of-ada-for-the-target"] * WAYS, *["Bearer none"] * WAYS]
    assert without.status == 200
    assert (refused.status, refused.json["error"]["code"]) == (401, "caller_key")
    assert "x-tandem-upstream-key: KEY" in refused.json["error"]["message"]


@every_adapter("chat", "simulated")
async def test_a_key_in_a_path_a_query_or_a_refused_field_is_neither_shown_nor_kept(hunt, capfd):
    for path in PATHS:
        await hunt.send(path.format(hunt.key))
        await hunt.send(path.format(hunt.key), {}, method="POST")
    for path, body in ROUTES.values():
        for name in REFUSED_FIELDS:
            await hunt.send(path, {**body, name: hunt.key})
        for name in FIELDS:
            await hunt.send(path, {**body, name: hunt.key, "metadata": {"user_id": hunt.key, hunt.key: "x"}})
        for name in REFUSED_HEADERS:
            await hunt.send(path, body, {name: hunt.key})
        await hunt.send(path, body, {f"x-tandem-{hunt.key}": "x"})
        await hunt.send(f"{path}?key={hunt.key}", body)
        await hunt.send(path, f'{{"model": {hunt.key}'.encode())
        await hunt.send(path, {**body, hunt.key: 1})
    for answer in (await hunt.send("/metrics"), await hunt.send("/tandem/stats"), await hunt.send("/tandem/live")):
        assert not hunt.holds(answer.body)

    await hunt.tandem.entries(1)
    assert hunt.shown() == []
    assert hunt.kept() == []
    assert not hunt.holds("".join(capfd.readouterr()))


@every_adapter("chat", "simulated")
async def test_a_socket_keeps_the_key_of_its_handshake_to_itself(hunt, upstream, capfd):
    told = []
    names = {"authorization": f"Bearer {hunt.key}", "x-tandem-upstream-key": "of-ada", "cookie": hunt.key, "api-key": hunt.key}
    async with open_socket(hunt.tandem.port, client_context(), **names) as socket:
        for more in (
            {},
            {"client_metadata": {"authorization": hunt.key, "x-api-key": hunt.key, "x-codex-turn-metadata": hunt.key}},
            {"client_metadata": {"x-tandem-tier": hunt.key}},
            {"client_metadata": {f"x-tandem-{hunt.key}": "1"}},
            {"model": hunt.key},
            {"previous_response_id": hunt.key},
            {"stream_id": hunt.key * 4},
        ):
            await socket.say(PROMPT, **more)
            told.append(await socket.answer())
        await socket.send({"type": hunt.key})
        told.append(await socket.answer())

    await hunt.tandem.entries(2)
    assert told[0]["type"] == "response.completed"
    assert not hunt.holds(json.dumps([event for event in told if event["type"] != "response.completed"]))
    assert hunt.kept() == []
    assert not hunt.holds("".join(capfd.readouterr()))
    assert not hunt.holds(json.dumps([[seen.path, seen.headers] for seen in upstream.seen]))


LOGIN = "sk-ant-oat01-canary-login-of-ada-0123456789"


@every_adapter("messages")
async def test_a_login_next_to_the_key_of_the_router_reaches_the_target_that_takes_it_and_nothing_else(hunt, upstream, capfd):
    path, body = ROUTES["messages"]
    named = {"x-tandem-key": hunt.key, "authorization": f"Bearer {LOGIN}"}
    for model in ("fast", "deep"):
        answer = await call(hunt.tandem.port, path, {**body, "model": model}, named, tls=client_context())
        assert answer.status == 200, answer.body
        hunt.answers.append(answer)

    (fast, deep) = (json.dumps([seen.path, seen.headers]) for seen in upstream.seen)
    login = Hunt(hunt.tandem, LOGIN.removeprefix("sk-ant-oat01-"))
    assert upstream.seen[0].headers["authorization"] == f"Bearer {LOGIN}"
    assert not hunt.holds(fast + deep)
    assert not login.holds(deep)
    assert not any(login.holds(seen.body) for seen in upstream.seen)
    login.answers = hunt.answers
    await hunt.tandem.entries(2)
    assert login.kept() == hunt.kept() == login.shown() == []
    log = "".join(capfd.readouterr())
    assert not login.holds(log)
    assert not hunt.holds(log)


async def test_a_route_that_is_passed_on_takes_the_key_for_the_target_and_no_other(upstream, tmp_path, capfd):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    key = write_keys(tmp_path, ada="")["ada"]
    write_pair(tmp_path)
    config = config_for("chat", upstream.base_url, "pass_through: {embeddings: spark}")
    async with running(config, tmp_path) as tandem:
        hunt = Hunt(tandem, key.text)

        answer = await hunt.send("/v1/embeddings", {"input": "a"}, {"cookie": hunt.key, "api-key": hunt.key})

        assert answer.status == 200
        assert [seen.headers["authorization"] for seen in upstream.seen] == ["Bearer key-of-ada-for-the-target"] * WAYS
        assert not hunt.holds(json.dumps([[seen.path, seen.headers] for seen in upstream.seen]))
        assert hunt.kept() == hunt.shown() == []
    assert not hunt.holds("".join(capfd.readouterr()))
