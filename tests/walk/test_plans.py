"""Clients that are logged in with a plan: their login goes to its vendor, and to nobody else."""

import json

import pytest

from tests.tools.http import call
from tests.tools.logins import ACCOUNT, chatgpt_login, claude_login
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Upstream, answer_json

MESSAGES = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
RESPONSES = {"model": "gpt-6.1-sol", "input": "hi"}
DEEP = {"x-tandem-tier": "deep"}
HI = Speech("hi")


@pytest.fixture
async def vendors():
    """Recording servers for both plans, a fast target and a spare with an API key."""
    servers = {name: Upstream() for name in ("claude", "chatgpt", "spark", "spare")}
    for name, server in servers.items():
        await server.start()
        server.scripts = [speak({"claude": "messages", "chatgpt": "responses"}.get(name, "chat"), HI)]
    yield servers
    for server in servers.values():
        await server.stop()


def config_of(vendors, deep: tuple[str, ...] = ("claude", "chatgpt"), extra: str = "") -> str:
    blocks = {
        "claude": f'adapter: anthropic_http, base_url: "{vendors["claude"].base_url}", model: claude-opus-5-5, '
        "api_key: caller, billing: plan",
        "chatgpt": f'adapter: openai_http, dialect: responses, base_url: "{vendors["chatgpt"].base_url}", model: gpt-6.1-sol, '
        "api_key: caller, billing: plan",
        "spare": "typical: {ttft_seconds: 60}, "
        f'adapter: openai_http, dialect: chat, base_url: "{vendors["spare"].base_url}", model: big, api_key: spare-key',
    }
    listed = "\n".join(f"      - {{name: {name}, window_tokens: 400000, {blocks[name]}}}" for name in deep)
    return f"""
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "*": auto}}
tiers:
  fast:
    targets:
      - {{name: spark, dialect: chat, base_url: "{vendors["spark"].base_url}", model: fast-model, api_key: spark-key}}
  deep:
    targets:
{listed}
{extra}
"""


def shown_to(server: Upstream) -> str:
    return json.dumps([[seen.path, seen.headers, seen.body.decode("latin-1")] for seen in server.seen])


CLIENTS = {
    "Claude Code": ("/v1/messages", MESSAGES, claude_login(), "claude"),
    "Codex": ("/v1/responses", RESPONSES, chatgpt_login(), "chatgpt"),
}
each_client = pytest.mark.parametrize(("path", "body", "login", "own"), CLIENTS.values(), ids=CLIENTS)


@each_client
async def test_a_login_goes_to_its_vendor_whatever_else_is_in_the_tier(start, vendors, path, body, login, own):
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, path, body, {**login, **DEEP})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, own)
    assert vendors[own].seen[0].headers["authorization"] == login["authorization"]
    assert [name for name, server in vendors.items() if server.seen] == [own]


@each_client
async def test_when_a_plan_fails_its_login_goes_to_no_other_target(start, vendors, path, body, login, own):
    vendors[own].scripts = [answer_json({"error": {"message": "down"}}, 503)]
    tandem = await start(config_of(vendors, ("claude", "chatgpt", "spare")))

    reply = await call(tandem.port, path, body, login | {"x-tandem-on-misfit": "other"} | DEEP)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spare")
    others = "".join(shown_to(server) for name, server in vendors.items() if name != own)
    assert "canary" not in others
    assert ACCOUNT not in others
    assert vendors["spare"].seen[0].headers["authorization"] == "Bearer spare-key"


async def test_a_plan_that_was_asked_for_with_anothers_login_says_whose_it_takes(start, vendors):
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, "/v1/messages", {**MESSAGES, "model": "claude"}, chatgpt_login())

    assert reply.status == 400
    assert "claude takes logins of a plan of Anthropic only, and this request has a login of ChatGPT" in reply.body.decode()
    assert "canary" not in reply.body.decode()
    assert not any(server.seen for server in vendors.values())


async def test_without_a_target_for_a_login_the_other_tier_serves(start, vendors):
    tandem = await start(config_of(vendors, ("claude",)))

    reply = await call(tandem.port, "/v1/responses", RESPONSES, chatgpt_login())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert "canary" not in shown_to(vendors["spark"])


@pytest.mark.parametrize("headers", [{}, {"chatgpt-account-id": ACCOUNT}], ids=["nothing", "an account alone"])
async def test_a_request_without_a_login_is_told_so_and_no_plan_is_asked(start, vendors, headers):
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, "/v1/responses", {**RESPONSES, "model": "chatgpt"}, headers)

    assert (reply.status, reply.json["error"]["code"]) == (401, "caller_key")
    assert not any(server.seen for server in vendors.values())


async def test_a_race_never_runs_on_a_plan(start, vendors):
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, "/tandem/race", {"input": "hi"}, claude_login())

    assert reply.status == 200
    assert b"only for clients that speak" in reply.body
    assert not vendors["claude"].seen
    assert not vendors["chatgpt"].seen


CLAUDE_CODE = {
    "accept": "application/json",
    "user-agent": "claude-cli/2.1.326 (external, cli)",
    "x-app": "cli",
    "x-claude-code-session-id": "5f0f7f5e-0000-4000-8000-000000000001",
    "x-stainless-lang": "js",
    "x-stainless-timeout": "600",
    "anthropic-beta": "claude-code-20250219,oauth-2025-04-20,interleaved-thinking-2025-05-14",
    "anthropic-version": "2023-06-01",
    "anthropic-dangerous-direct-browser-access": "true",
}
CODEX = {
    "accept": "text/event-stream",
    "user-agent": "codex_exec/0.169.0",
    "originator": "codex_exec",
    "session-id": "019a0000-0000-7000-8000-000000000001",
    "thread-id": "019a0000-0000-7000-8000-000000000001",
    "x-client-request-id": "019a0000-0000-7000-8000-000000000001",
    "x-codex-beta-features": "one,two",
    "x-codex-window-id": "019a:0",
    "x-codex-turn-metadata": '{"turn_id":"1"}',
    "x-openai-internal-codex-responses-lite": "true",
}
ROAD = {
    "Claude Code": ("/v1/messages?beta=true", {**MESSAGES, "stream": True}, {**claude_login(), **CLAUDE_CODE}, "claude"),
    "Codex": ("/v1/responses", {**RESPONSES, "stream": True}, {**chatgpt_login(), **CODEX}, "chatgpt"),
}
each_road = pytest.mark.parametrize(("path", "body", "headers", "own"), ROAD.values(), ids=ROAD)


def without_connection(headers: dict[str, str]) -> dict[str, str]:
    kept_here = {"host", "content-length", "accept-encoding", "connection", "transfer-encoding", "date", "server"}
    return {name: value for name, value in headers.items() if name not in kept_here}


@each_road
async def test_a_plan_gets_what_its_client_sent(start, vendors, path, body, headers, own):
    tandem = await start(config_of(vendors))
    raw = json.dumps({**body, "odd": 12345678901234567890123, "metadata": {"user_id": "sk-ant-oat01-in-the-body"}}, indent=1)

    more = {"x-tandem-key": "router", "x-api-key": "router", "cookie": "tandem=1", "x-forwarded-for": "1.2.3.4", **DEEP}
    await call(tandem.port, path, raw.encode(), {**headers, **more})

    seen = vendors[own].seen[0]
    assert without_connection(seen.headers) == {**headers, "content-type": "application/json"}
    assert seen.headers["accept-encoding"] == "identity"
    assert (seen.path, seen.body) == (path, raw.encode())


@pytest.mark.parametrize(
    ("asked", "sent"),
    [("deep", "claude-opus-5-5"), ("claude-sonnet-5", "claude-sonnet-5"), ("anthropic/claude-deep", "claude-opus-5-5")],
)
async def test_a_plan_gets_the_models_own_name_and_never_one_of_ours(start, vendors, asked, sent):
    tandem = await start(config_of(vendors))

    await call(tandem.port, "/v1/messages", {**MESSAGES, "model": asked}, claude_login() | DEEP)

    assert vendors["claude"].seen[0].json["model"] == sent


def answering(status: int, headers: dict[str, str], body: bytes):
    async def script(wire, seen) -> None:
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await wire.send(f"HTTP/1.1 {status} Any\r\n{told}content-length: {len(body)}\r\n\r\n".encode() + body)

    return script


FIGURES = {
    "claude": {
        "anthropic-ratelimit-unified-status": "allowed",
        "anthropic-ratelimit-unified-5h-utilization": "0.41",
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-organization-id": "org-1",
        "cf-ray": "1-FRA",
    },
    "chatgpt": {
        "x-codex-primary-used-percent": "41",
        "x-codex-secondary-used-percent": "7",
        "x-codex-plan-type": "pro",
        "x-codex-turn-state": "opaque",
        "openai-model": "gpt-6.1-sol",
    },
}
STREAMS = {
    "claude": b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "chatgpt": b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":41}}}\n\n'
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hi"}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","output":[],"usage":'
    b'{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}\n\n',
}


@each_road
async def test_a_client_gets_what_its_plan_answered(start, vendors, path, body, headers, own):
    figures = {**FIGURES[own], "content-type": "text/event-stream; charset=utf-8", "set-cookie": "__cf_bm=1"}
    vendors[own].scripts = [answering(200, figures, STREAMS[own])]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.body) == (200, STREAMS[own])
    assert FIGURES[own].items() <= reply.headers.items()
    assert "set-cookie" not in reply.headers
    assert reply.headers["x-tandem-target"] == own


def usage_limit(seconds: int) -> bytes:
    told = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": seconds}
    return json.dumps({"error": {**told, "plan_type": "pro", "resets_at": 1_800_000_000}}).encode()


def refused_by_claude(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}).encode()


FIVE_HOURS = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "1800000000",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "retry-after": "5400",
}
WEEK = {**FIVE_HOURS, "anthropic-ratelimit-unified-representative-claim": "seven_day", "retry-after": "400000"}
JSON = {"content-type": "application/json"}
REFUSALS = {
    "claude, 401": ("claude", 401, {}, refused_by_claude("authentication_error", "OAuth token has expired. Please obtain …")),
    "claude, 403": ("claude", 403, {}, refused_by_claude("permission_error", "OAuth token has been revoked.")),
    "claude, 404": ("claude", 404, {}, refused_by_claude("not_found_error", "model: claude-opus-9")),
    "claude, 429": ("claude", 429, {"retry-after": "3"}, refused_by_claude("rate_limit_error", "Slow down")),
    "claude, 5 hours": ("claude", 429, FIVE_HOURS, refused_by_claude("rate_limit_error", "This request would exceed your …")),
    "claude, week": ("claude", 429, WEEK, refused_by_claude("rate_limit_error", "This request would exceed your …")),
    "claude, 529": ("claude", 529, {"x-should-retry": "true"}, refused_by_claude("overloaded_error", "Overloaded")),
    "claude, 500": ("claude", 500, {}, refused_by_claude("api_error", "Internal server error")),
    "chatgpt, 401": (
        "chatgpt",
        401,
        {},
        b'{"error":{"message":"Provided authentication token is expired.","code":"token_expired"}}',
    ),
    "chatgpt, 5 hours": ("chatgpt", 429, {"x-codex-primary-used-percent": "100"}, usage_limit(5400)),
    "chatgpt, week": ("chatgpt", 429, {"x-codex-secondary-used-percent": "100"}, usage_limit(400_000)),
    "chatgpt, 403": ("chatgpt", 403, {"content-type": "text/html"}, b"<html>Enable JavaScript</html>"),
    "chatgpt, 503": ("chatgpt", 503, {}, b'{"error":{"message":"down"}}'),
}


@pytest.mark.parametrize(("own", "status", "told", "body"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_of_a_plan_arrives_in_its_own_words_after_one_request(start, vendors, own, status, told, body):
    vendors[own].scripts = [answering(status, {**JSON, **told}, body)]
    tandem = await start(config_of(vendors))
    path, asked, headers, _ = ROAD["Claude Code" if own == "claude" else "Codex"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert (reply.status, reply.body) == (status, body)
    assert ({**JSON, **told}).items() <= reply.headers.items()
    assert {"retry-after", "retry-after-ms", "x-should-retry"} & reply.headers.keys() <= told.keys()
    assert len(vendors[own].seen) == 1


FAILED_STREAMS = {
    "claude": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "chatgpt": b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    b'event: response.failed\ndata: {"type":"response.failed","response":{"id":"resp_1","error":{"code":"rate_limit_exceeded",'
    b'"message":"Rate limit reached"}}}\n\n',
}


@each_road
async def test_an_error_inside_a_stream_that_began_well_arrives_there_too(start, vendors, path, body, headers, own):
    vendors[own].scripts = [answering(200, {"content-type": "text/event-stream", **FIGURES[own]}, FAILED_STREAMS[own])]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.body) == (200, FAILED_STREAMS[own])
    assert reply.headers["content-type"] == "text/event-stream"
    assert len(vendors[own].seen) == 1


@each_road
async def test_an_error_inside_a_stream_lets_a_spare_take_over(start, vendors, path, body, headers, own):
    vendors[own].scripts = [answering(200, {"content-type": "text/event-stream"}, FAILED_STREAMS[own])]
    tandem = await start(config_of(vendors, (own, "spare")))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spare")
    assert "canary" not in shown_to(vendors["spare"])
    assert ACCOUNT not in shown_to(vendors["spare"])


async def test_an_expired_login_is_refreshed_by_its_client_and_not_answered_by_a_spare(start, vendors):
    body = refused_by_claude("authentication_error", "OAuth token has expired.")
    vendors["claude"].scripts = [answering(401, JSON, body), speak("messages", HI)]
    tandem = await start(config_of(vendors, ("claude", "spare")))
    path, asked, headers, _ = ROAD["Claude Code"]

    expired = await call(tandem.port, path, asked, {**headers, **DEEP})
    fresh = await call(tandem.port, path, asked, {**headers, **claude_login("ada-again"), **DEEP})

    assert (expired.status, expired.body) == (401, body)
    assert (fresh.status, fresh.headers["x-tandem-target"]) == (200, "claude")
    assert not vendors["spare"].seen


async def test_when_plan_and_spare_both_refuse_the_plans_own_refusal_arrives(start, vendors):
    body = refused_by_claude("rate_limit_error", "This request would exceed your …")
    vendors["claude"].scripts = [answering(429, {**JSON, **FIVE_HOURS}, body)]
    vendors["spare"].scripts = [answer_json({"error": {"message": "down"}}, 503)]
    tandem = await start(config_of(vendors, ("claude", "spare")))
    path, asked, headers, _ = ROAD["Claude Code"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert (reply.status, reply.body) == (429, body)
    assert FIVE_HOURS.items() <= reply.headers.items()
    assert len(vendors["spare"].seen) == 1


async def test_a_spare_that_speaks_messages_is_not_sent_the_flag_of_a_login(start, vendors):
    vendors["claude"].scripts = [answering(529, JSON, b"{}")]
    vendors["spare"].scripts = [speak("messages", HI)]
    config = config_of(vendors, ("claude", "spare")).replace(
        f'adapter: openai_http, dialect: chat, base_url: "{vendors["spare"].base_url}"',
        f'adapter: anthropic_http, base_url: "{vendors["spare"].base_url}"',
    )
    tandem = await start(config)
    path, asked, headers, _ = ROAD["Claude Code"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert reply.headers["x-tandem-target"] == "spare"
    sent = vendors["spare"].seen[0].headers
    assert sent["anthropic-beta"] == "claude-code-20250219,interleaved-thinking-2025-05-14"
    assert sent["x-api-key"] == "spare-key"
    assert not {"x-app", "x-claude-code-session-id", "authorization"} & sent.keys()


async def test_a_summary_that_the_router_asks_for_is_not_asked_of_a_plan(start, vendors):
    tandem = await start(config_of(vendors))

    reply = await call(
        tandem.port,
        "/v1/responses/compact",
        {"model": "gpt-6.1-sol", "input": [{"role": "user", "content": "hi"}]},
        chatgpt_login(),
    )

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert not vendors["chatgpt"].seen
