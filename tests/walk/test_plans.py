"""Clients that are logged in with a plan: their login goes to its vendor, and to nobody else."""

import json

import pytest

from tests.tools.http import call
from tests.tools.logins import ACCOUNT, chatgpt_login, chatgpt_token, claude_login
from tests.tools.plans import DEEP, HI, MESSAGES, RESPONSES, ROAD, answering, config_of, shown_to
from tests.tools.speech import speak
from tests.tools.trace_receiver import Receiver
from tests.tools.upstream import answer_json

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


SHOWN = ("stats", "savings", "notices", "turns", "sessions", "series", "jobs", "past/turns", "past/sums", "past/sessions")


async def ask_everything(tandem, answers: list) -> list[dict]:
    """Answers are added. Returns the ledger's entries."""
    for path, body, headers, _ in (*[ROAD["Claude Code"]] * 3, ROAD["Codex"]):
        answers.append(await call(tandem.port, path, body, {**headers, **DEEP, "x-tandem-explain": "full"}))
    answers.append(await call(tandem.port, "/v1/messages", {**MESSAGES, "model": "claude"}, chatgpt_login()))
    answers.append(await call(tandem.port, "/tandem/explain", MESSAGES, ROAD["Claude Code"][2]))
    entries = await tandem.entries(5)
    own = f"/tandem/decisions/{entries[0]['id']}"
    for page in ("/metrics", "/", own, *(f"/tandem/{name}" for name in SHOWN)):
        answers.append(await call(tandem.port, page, b"", claude_login(), method="GET"))
        assert answers[-1].status == 200, page
    return entries


async def test_logins_and_accounts_are_in_no_log_ledger_file_page_metric_trace_or_error(start, vendors, capfd):
    vendors["claude"].scripts = [speak("messages", HI), answering(401, {}, b"{}"), answering(529, {}, b"{}")]
    answers = []
    with Receiver() as receiver:
        extra = f"metrics: {{on: true, callers: true}}\ntraces: {{endpoint: '{receiver.url}', sample: 1.0}}"
        tandem = await start(config_of(vendors, ("claude", "chatgpt", "spare"), extra=extra))
        entries = await ask_everything(tandem, answers)
        await tandem.built.close()
    traced = b"".join(receiver.taken)

    kept = b"".join(path.read_bytes() for path in tandem.loaded.folder.rglob("*") if path.is_file())
    told = "".join(capfd.readouterr()) + json.dumps([answer.headers for answer in answers]) + json.dumps(entries, default=str)
    told += (traced + kept).decode("latin-1") + "".join(answer.body.decode("latin-1") for answer in answers)
    others = "".join(shown_to(vendors[name]) for name in ("spark", "spare"))
    assert len(receiver.traces) >= 5
    for secret in ("canary", ACCOUNT, chatgpt_token().split(".")[1]):
        assert secret not in told
        assert secret not in others
