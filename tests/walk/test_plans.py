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
        "spare": f'adapter: openai_http, dialect: chat, base_url: "{vendors["spare"].base_url}", model: big, api_key: spare-key',
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
